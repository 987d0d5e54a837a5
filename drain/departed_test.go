package drain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// A departure is a start that the receiver may have noticed. A handler that comes to it too late is late, on whichever
// side of the gate it was held up.
func TestDeparted(t *testing.T) {
	late := fmt.Errorf("held up: %w", ErrLate)
	for _, c := range []struct {
		name     string
		gate     bool // it waits there
		held     time.Duration
		err      error
		departed int
		verdict  queue.Verdict
		why      Reason // of a release
	}{
		{"delivered", true, 0, nil, 1, queue.Deliver, 0},
		{"delivered after its window", true, 6 * ms, nil, 1, queue.Deliver, 0},
		{"failed after its window", true, 6 * ms, errors.New("reset"), 1, queue.Fail, 0},
		{"refused to write", true, 6 * ms, late, 0, queue.Release, Late},
		{"refused to write, long after", true, 99 * ms, late, 0, queue.Release, Late},
		{"gave it back after a look", true, 2 * ms, late, 1, queue.Release, Handlers},
		{"found it hopeless", true, 6 * ms, Permanent(late), 1, queue.Bury, 0},
		{"no connection by the end of the window", false, 5 * ms, late, 0, queue.Release, Late},
		{"gave it back before the gate", false, 2 * ms, late, 0, queue.Release, Handlers},
		{"failed before the gate", false, 2 * ms, errors.New("no route"), 0, queue.Fail, 0},
	} {
		bubble(t, c.name, func(t *testing.T) {
			f := newFake().queue("q", leaky.PerSecond(100), nil).answers(answer{jobs: []queue.Reservation{job("q", "a", 0)}})
			w := newWatch()
			run := drainWith(t, f, handlerOf(func(ctx context.Context, _ *Job, gate Gate) error {
				if c.gate {
					if err := gate.Wait(ctx); err != nil {
						t.Errorf("the gate said %v", err)
					}
				}
				time.Sleep(c.held)
				return c.err
			}), Options{Observer: w})
			time.Sleep(time.Second)
			run.finish()
			want := map[Reason]int{}
			if c.why != 0 {
				want[c.why] = 1
			}
			if len(w.late) != c.departed || !maps.Equal(w.released, want) {
				t.Errorf("%d departed, released %v; want %d, %v", len(w.late), w.released, c.departed, want)
			}
			if v := f.verdicts()["a"].Verdict; v != c.verdict {
				t.Errorf("settled as %v, want %v", v, c.verdict)
			}
		})
	}
}

// Long work counts as departed while in progress, and only once.
func TestDepartedUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().queue("q", leaky.PerSecond(100), nil).answers(answer{jobs: []queue.Reservation{
			job("q", "a", 0), job("q", "lost", 10*ms),
		}})
		f.ext = func(time.Duration) (time.Duration, error) { return 0, nil }
		w := newWatch()
		run := drainWith(t, f, HandlerFunc(func(ctx context.Context, job *Job) error {
			if job.ID == "lost" {
				<-ctx.Done()
				return ErrLate
			}
			time.Sleep(9 * time.Second)
			return nil
		}), Options{Observer: w})
		time.Sleep(time.Second)
		w.do(func() {
			if len(w.late) != 2 {
				t.Errorf("%d departed within a second, want 2", len(w.late))
			}
		})
		time.Sleep(time.Minute)
		run.finish()
		if len(w.late) != 2 || len(w.released) != 0 {
			t.Errorf("%d departed, want 2; released %v", len(w.late), w.released)
		}
	})
}
