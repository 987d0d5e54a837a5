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

// Late jobs are logged at most once per complaintPause, whether late before their handler or in the gate. The next line
// has the number since then.
func TestLateJobsAreLoggedOnceInAWhile(t *testing.T) {
	for _, c := range []struct {
		name    string
		departs time.Duration
		prepare time.Duration // of the handler
		says    string
	}{
		{"before the handler", -6 * ms, 0, "its slack was over before a handler got it"},
		{"in the gate", 20 * ms, 30 * ms, "it did not start within its slack"},
	} {
		bubble(t, c.name, func(t *testing.T) {
			late := func(next time.Duration, ids ...string) answer {
				a := answer{more: queue.Reserved{Next: next}}
				for _, id := range ids {
					a.jobs = append(a.jobs, job("q", id, c.departs))
				}
				return a
			}
			f := newFake().queue("q", leaky.PerSecond(100), nil).answers(
				late(2*time.Second, "a", "b", "c"), late(complaintPause, "d", "e"), late(2*time.Second, "f"))
			w := newWatch()
			var text bytes.Buffer
			run := drainWith(t, f, handlerOf(func(ctx context.Context, _ *Job, gate Gate) error {
				time.Sleep(c.prepare)
				return gate.Wait(ctx)
			}), Options{Observer: w, Logger: slog.New(slog.NewTextHandler(&text, nil))})
			time.Sleep(time.Minute)
			run.finish()
			if w.released[Late] != 6 {
				t.Errorf("released %v, want 6 late", w.released)
			}
			var lines []string
			for line := range strings.Lines(text.String()) {
				if strings.Contains(line, c.says) {
					lines = append(lines, line)
				}
			}
			if len(lines) != 2 || strings.Contains(lines[0], "times=") || !strings.Contains(lines[1], "times=5") {
				t.Errorf("want two lines, the second for 5 jobs:\n%s", &text)
			}
		})
	}
}
