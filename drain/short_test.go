package drain

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// The answer to a repeated request does not show which queues are short. On a link that loses every other reply, a
// hanging queue is detected as soon as on a perfect link, and a repeat does not end the state.
func TestARepeatEndsNoShortage(t *testing.T) {
	bubble(t, "hangs", func(t *testing.T) {
		f := newFake().queue("q", leaky.PerSecond(10), nil)
		short := queue.Reserved{Short: []string{"q"}}
		f.answers(answer{jobs: []queue.Reservation{job("q", "a", 0)}, more: short})
		for range 20 {
			f.answers(answer{err: queue.ErrOutcomeUnknown}, answer{}, answer{more: short})
		}
		h := newStarts(f)
		h.do = func(ctx context.Context, _ *Job) error { <-ctx.Done(); return context.Cause(ctx) }
		var u Usage
		var text bytes.Buffer
		d := drainWith(t, f, h, Options{
			Concurrency: 1, Usage: &u, Grace: time.Millisecond, Logger: slog.New(slog.NewTextHandler(&text, nil)),
		})
		for at := 1; at <= 60 && !t.Failed(); at++ {
			time.Sleep(time.Second)
			if q := u.Queues(); len(q) != 1 || !q[0].Short || (at < 10 || at > 11) && q[0].Hanging != (at > 11) {
				t.Errorf("after %d s: %+v", at, q)
			}
		}
		d.finish()
		if n, m := strings.Count(text.String(), "queue hangs"), strings.Count(text.String(), "no longer hangs"); n != 1 ||
			m != 0 {
			t.Errorf("logged %d times that it hangs and %d that it continues, want once and never:\n%s", n, m, text.String())
		}
	})
}
