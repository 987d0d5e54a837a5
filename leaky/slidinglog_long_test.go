package leaky

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A log of thousands of entries, whose total cost wraps around 2^64, answers like a plain list.
func TestALongLogAgainstAList(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 43))
	rule := SlidingLog{Max: 4000, Period: time.Second}
	tally := rule.Fresh().(*logged)
	tally.base -= 100_000 // so that it starts again
	var all []passed
	now := Instant(1_790_000_000_000_000)
	most := 0
	for step := range 15_000 {
		now += Instant(1 + rnd.IntN(300))
		if rnd.IntN(2000) == 0 {
			now += Instant(rnd.IntN(1_200_000)) // many entries expire, or all
		}
		all = slices.DeleteFunc(all, func(p passed) bool { return p.at <= now-sec })
		most = max(most, len(all))
		sum := int64(0)
		for _, p := range all {
			sum += p.cost
		}
		a := Ask{Cost: 1 + rnd.Int64N(2)}
		var d Decision
		switch rnd.IntN(8) {
		case 0:
			tally.Refund(now, Ask{Cost: 3})
			h := history{passed: all}
			h.back(now-sec, 3)
			all = slices.DeleteFunc(h.passed, func(p passed) bool { return p.cost == 0 })
			continue
		case 1, 2, 3:
			a.Cost = 1 + rnd.Int64N(rule.Max)
			d = tally.Peek(now, a)
		default:
			if d = tally.Take(now, a); d.Allowed {
				all = append(all, passed{now, a.Cost})
			}
		}
		wait := time.Duration(0)
		if over := sum + a.Cost - rule.Max; over > 0 {
			for _, p := range all {
				if over -= p.cost; over <= 0 {
					wait = (p.at + sec).Sub(now)
					break
				}
			}
		}
		if d.Allowed != (wait == 0) || d.RetryAfter != wait {
			t.Fatalf("step %d: %+v; a list says %v", step, d, wait)
		}
	}
	if most < 1000 {
		t.Errorf("it had %d entries at most", most)
	}
}
