package leaky

import (
	"testing"
	"time"
)

func TestDelay(t *testing.T) {
	const t0 = 1_000 * sec
	p := Pacer{Rate: mustRate(t, "3/s"), Burst: 4, Horizon: 50 * time.Millisecond}
	b := p.Delay(Bucket{}, t0, 7)
	// After now + H come the cost of the last job and nothing of the burst.
	want := t0 + 50*ms + 7*sec/3 + 1
	if got := p.Next(b, t0); got != want {
		t.Errorf("next at t0+%d, want t0+%d", got-t0, want-t0)
	}
	if again := p.Delay(b, t0, 7); p.Next(again, t0) != want {
		t.Error("a second hold moved it")
	}
	// A later value stays.
	full := Bucket{}
	for range 4 {
		p.Take(&full, t0, MaxCost)
	}
	if got, kept := p.Delay(full, t0, 1), full; got.TAT < kept.TAT {
		t.Errorf("hold pulled the TAT back from %d to %d", kept.TAT, got.TAT)
	}
	if got, want := p.Cover(p.Delay(Bucket{}, t0, 3), 4), p.Delay(Bucket{}, t0, 7); got != want {
		t.Errorf("held for 3 and covered for 4 more: %+v, want %+v", got, want)
	}
	u := Pacer{Burst: 1, Horizon: 50 * time.Millisecond}
	if got := u.Next(u.Delay(Bucket{}, t0, 7), t0); got > t0+50*ms {
		t.Errorf("unlimited held until t0+%d", got-t0)
	}
}

// Whatever the store holds, the next departure is no later than after one honest departure at the horizon.
func TestPlantedValues(t *testing.T) {
	const t0 = 1_000 * sec
	p := Pacer{Rate: mustRate(t, "3/s"), Burst: 4, Horizon: 50 * time.Millisecond}
	worst := p.Delay(Bucket{}, t0, MaxCost)
	latest := p.Next(worst, t0)
	extremes := []int64{0, 1, -1, 1 << 40, -(1 << 40), 1 << 52, -(1 << 52), int64(t0), int64(t0) + 1<<30}
	for _, tat := range extremes {
		for _, last := range extremes {
			for _, rem := range []int64{0, 1, 2, 3, -1, 1 << 52, -(1 << 52)} {
				for _, cost := range []int64{0, 1, MaxCost, MaxCost + 1, -1, 1 << 52} {
					b := Bucket{TAT: Instant(tat), Rem: rem, Last: Instant(last), LastCost: cost}
					planted := b
					if next := p.Next(b, t0); next < t0 || next > latest {
						t.Fatalf("%+v departs at t0+%d, at most t0+%d", b, next-t0, latest-t0)
					}
					// Asking again at the given time succeeds within two rounds.
					now, ok := t0, false
					for range 3 {
						if _, ok = p.Take(&b, now, 1); ok {
							break
						}
						now = p.Next(b, now) - 50*ms
					}
					if !ok || b.Last > latest {
						t.Fatalf("%+v is stopped: %+v at t0+%d", planted, b, now-t0)
					}
				}
			}
		}
	}
}
