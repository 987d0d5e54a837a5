package machine

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/penstock/penstock/queue"
)

func ramped(ramp queue.Ramp, most int64) func(*queue.Spec) {
	return func(s *queue.Spec) {
		s.Limits = []queue.Limit{{Quota: queue.Quota{Max: most, Per: "d"}, Ramp: ramp}}
	}
}

// Over crashes and reopenings, a ramp grows exactly after days on which something left, and days never exceed it.
func TestRampsHoldOverCrashes(t *testing.T) {
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		b := start(t, Options{})
		b.MustPut("q", "unlimited", ramped(queue.Ramp{Factor: 2, Until: 1000, Idle: queue.RampHold}, 4))
		most, id := int64(4), 0
		b.Advance(12 * time.Hour) // to midnight
		for day := range 10 {
			left, idle := int64(0), rnd.IntN(3) == 0
			for range 12 {
				switch rnd.IntN(5) {
				case 0:
					b.crash()
				case 1:
					b.reopen()
				case 2:
					n := 1 + rnd.IntN(3)
					b.AppendTo("q", id, n)
					id += n
				default:
					if !idle {
						left += int64(len(b.MustReserve(1 + rnd.IntN(4))))
					}
				}
				b.Advance(time.Hour)
			}
			if i := b.MustGet("q"); left > most || i.Limits[0].Window.Step > int64(day) {
				t.Fatalf("seed %d, day %d: %d left of %d, %+v", seed, day, left, most, i.Limits[0].Window)
			}
			b.Advance(12 * time.Hour)
			if left > 0 {
				most = min(1000, 2*most)
			}
			i := b.MustGet("q")
			if s, ok := i.QuotaState(0); !ok || s.Max != most || s.Used != 0 {
				t.Fatalf("seed %d: after day %d, on which %d left, the state is %+v, want a maximum of %d", seed, day, left, s,
					most)
			}
		}
	}
}

// A record without a ramp is what earlier versions wrote.
func TestStepsArePackedAboveWhatIsUsed(t *testing.T) {
	type window = struct{ used, step int64 }
	for _, w := range []window{{0, 0}, {7, 0}, {1 << 40, 0}, {0, 399}, {1 << 40, 399}, {5, 1}} {
		s := queue.LimitState{}
		s.Window.Ends, s.Window.Used, s.Window.Step = 9, w.used, w.step
		text := encode(&s.Window)
		plain := queue.LimitState{}
		if rest, err := decode(text, "window", &plain.Window); err != nil || len(rest) != 0 || plain != s {
			t.Errorf("%+v became %+v, %v", s, plain, err)
		}
		ends, used := int64(9), w.used
		if same := string(encode(&ends, &used)) == string(text); same != (w.step == 0) {
			t.Errorf("%+v: as without a step is %v", w, same)
		}
	}
}
