package leaky

import (
	"testing"
	"time"
)

func TestChange(t *testing.T) {
	const t0 = 1_000 * sec
	const wait = 50 * time.Millisecond
	rule := func(rate string, burst int64) Pacer {
		return Pacer{Rate: mustRate(t, rate), Burst: burst, Horizon: wait}
	}
	for _, tt := range []struct {
		name     string
		from, to Pacer
		departed int     // at t0, one after another
		at       Instant // of the change
		next     Instant
	}{
		{
			"raised: the wait is as if the new rate had always applied", rule("1/s", 1), rule("5/4s", 1), 1, t0 + 500*ms,
			t0 + 800*ms,
		},
		{"raised: the wait is over if it would have been", rule("1/s", 1), rule("10/s", 1), 1, t0 + 500*ms, t0 + 500*ms},
		{"raised in the instant of a departure", rule("1/s", 1), rule("10/s", 1), 1, t0, t0 + 100*ms},
		{"from one a month", rule("1/744h", 1), rule("10/s", 1), 1, t0, t0 + 100*ms},
		{"lowered: the wait grows in proportion", rule("10/s", 1), rule("1/s", 1), 1, t0 + 50*ms, t0 + 550*ms},
		{"lowered when the wait was over", rule("10/s", 1), rule("1/s", 1), 1, t0 + 100*ms, t0 + 100*ms},
		{"nothing ever left", rule("10/s", 1), rule("1/s", 1), 0, t0, t0},
		{"a burst raised gives nothing away", rule("10/s", 1), rule("10/s", 5), 1, t0, t0 + 100*ms},
		{"a burst raised after a rest", rule("10/s", 1), rule("10/s", 5), 1, t0 + 10*sec, t0 + 10*sec},
		{"a burst lowered", rule("10/s", 5), rule("10/s", 1), 5, t0, t0 + 100*ms},
		{"rate and burst raised", rule("1/s", 1), rule("10/s", 5), 1, t0, t0 + 100*ms},
		{"to unlimited", rule("1/s", 1), rule("unlimited", 1), 1, t0, t0},
		{"from unlimited", rule("unlimited", 1), rule("1/s", 1), 4, t0, t0 + 1*sec},
		{"from unlimited with a burst", rule("unlimited", 3), rule("1/s", 3), 4, t0 + 2*sec, t0 + 2*sec},
		{"to itself", rule("3/s", 1), rule("3/s", 1), 1, t0 + 1, t0 + 333_334},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b Bucket
			for range tt.departed {
				if d, ok := tt.from.Take(&b, t0, 1); !ok || d != t0 {
					t.Fatal(d, ok)
				}
			}
			c := tt.from.Change(b, tt.to, tt.at)
			if got := tt.to.Next(c, tt.at); got != tt.next {
				t.Errorf("next departure at t0+%d, want t0+%d (%+v)", got-t0, tt.next-t0, c)
			}
		})
	}
}

// A raised burst must be earned by idleness under the new rule.
func TestChangeOfBurstIsNoGiftEvenRepeated(t *testing.T) {
	const t0 = 1_000 * sec
	one := Pacer{Rate: mustRate(t, "10/s"), Burst: 1, Horizon: 0}
	five := Pacer{Rate: mustRate(t, "10/s"), Burst: 5, Horizon: 0}
	var b Bucket
	left := 0
	for i := range Instant(1000) { // a second, the burst raised and lowered a thousand times
		now := t0 + i*ms
		for {
			if _, ok := one.Take(&b, now, 1); !ok {
				break
			}
			left++
		}
		b = one.Change(b, five, now)
		for {
			if _, ok := five.Take(&b, now, 1); !ok {
				break
			}
			left++
		}
		b = five.Change(b, one, now)
	}
	if left > 10+4 {
		t.Errorf("%d left within a second at 10/s with a burst of 5", left)
	}
}
