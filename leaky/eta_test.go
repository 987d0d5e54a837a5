package leaky

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestETA(t *testing.T) {
	const t0 = 1_000 * sec
	p := Pacer{Rate: mustRate(t, "14/s"), Burst: 1, Horizon: 50 * time.Millisecond}
	u := Pacer{Burst: 1}
	var b Bucket
	if got := p.ETA(b, t0, 0); got != t0 {
		t.Errorf("an idle bucket: t0+%d", got-t0)
	}
	if got := p.ETA(b, t0, 14); got != t0+sec {
		t.Errorf("14 ahead: t0+%d", got-t0)
	}
	p.Take(&b, t0, 1)
	if got := p.ETA(b, t0, 0); got != t0+71_429 {
		t.Errorf("after one: t0+%d", got-t0)
	}
	if got := p.ETA(b, t0+10*sec, 0); got != t0+10*sec {
		t.Errorf("after a rest: t0+%d", got-t0)
	}
	if got := u.ETA(b, t0, 1<<40); got != t0 {
		t.Errorf("unlimited: t0+%d", got-t0)
	}
	slow := Pacer{Rate: mustRate(t, "1/744h"), Burst: 1}
	if got := slow.ETA(b, t0, math.MaxInt64); got <= t0 {
		t.Errorf("a backlog longer than time itself overflowed to %d", got)
	}
}

// ETA predicts what Take does, for any rate, burst and costs ahead.
func TestETAIsKept(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		p := Pacer{Rate: randomRate(rnd), Burst: 1 + rnd.Int64N(4), Horizon: 50 * time.Millisecond}
		now := 1_000*sec + Instant(rnd.Int64N(1e6))
		var b Bucket
		for range rnd.IntN(5) {
			p.Take(&b, now, 1+rnd.Int64N(3))
		}
		costs, ahead := make([]int64, rnd.IntN(30)), int64(0)
		for i := range costs {
			costs[i] = 1 + rnd.Int64N(5)
			ahead += costs[i]
		}
		eta := p.ETA(b, now, ahead)
		for _, c := range append(costs, 1) {
			d, ok := p.Take(&b, now, c)
			if !ok {
				now = p.Next(b, now) - 50*ms
				d, _ = p.Take(&b, now, c)
			}
			now = max(now, d-50*ms)
		}
		// Granted as early as possible, jobs leave as promised, except for rounding: a microsecond.
		if diff := b.Last - eta; diff < -1 || diff > 1 {
			t.Fatalf("%s burst %d: promised %d, left %+d later", p.Rate, p.Burst, eta, diff)
		}
	}
}
