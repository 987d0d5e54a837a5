package boltq

import (
	"testing"
	"time"

	"github.com/penstock/penstock/queue"
)

// A ramp goes on with its step after a restart and after kill -9. A day on which nothing left counts after neither.
func TestRampsSurviveAKill(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("q", "unlimited", func(s *queue.Spec) {
		s.Limits = []queue.Limit{{
			Quota: queue.Quota{Max: 2, Per: "d"}, Ramp: queue.Ramp{Steps: queue.StepsOf(2, 4, 9), Idle: queue.RampHold},
		}}
	})
	b.AppendTo("q", 0, 50)
	b.MustSettle(queue.Deliver, b.MustReserve(1))
	for i, step := range []struct {
		most    int64
		restart func()
		take    int
	}{{4, b.reopen, 0}, {4, b.killed, 0}, {4, b.reopen, 0}, {4, b.killed, 3}, {9, b.killed, 0}, {9, b.reopen, 0}} {
		b.Advance(24 * time.Hour)
		step.restart()
		i0 := b.MustGet("q")
		if s, ok := i0.QuotaState(0); !ok || s.Max != step.most || s.Used != 0 {
			t.Fatalf("after restart %d: %+v, want a maximum of %d", i, s, step.most)
		}
		if step.take > 0 {
			b.MustSettle(queue.Deliver, b.MustReserve(step.take))
		}
	}
}
