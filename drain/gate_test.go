package drain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/internal/departure"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// A job starts within its slack or not at all, whatever made it late. trip is the duration of each answer with the
// engine's clock, and so the client's possible error.
func TestWindow(t *testing.T) {
	for _, c := range []struct {
		name    string
		trip    time.Duration
		d       time.Duration
		slack   time.Duration
		prepare time.Duration // of the handler, from the answer on
		start   time.Duration // after the request; 0: released
		closes  time.Duration // the gate
	}{
		{"departs ahead", 1 * ms, 20 * ms, 5 * ms, 0, 21 * ms, 25 * ms},
		{"departs now", 1 * ms, 0, 5 * ms, 0, 1 * ms, 5 * ms},
		{"slow answers leave less of the window", 2 * ms, 20 * ms, 5 * ms, 0, 22 * ms, 25 * ms},
		{"slower ones leave half of the slack", 4 * ms, 20 * ms, 5 * ms, 0, 24 * ms, 26500 * us},
		{"however slow they are", 18 * ms, 20 * ms, 5 * ms, 0, 38 * ms, 40500 * us},
		{"half of the slack and no more", 18 * ms, 20 * ms, 5 * ms, 23 * ms, 0, 40500 * us},
		{"prepared before the departure", 1 * ms, 20 * ms, 5 * ms, 19 * ms, 21 * ms, 25 * ms},
		{"prepared within the slack", 1 * ms, 20 * ms, 5 * ms, 23 * ms, 24 * ms, 25 * ms},
		{"prepared at the end of the slack", 1 * ms, 20 * ms, 5 * ms, 23990 * us, 24990 * us, 25 * ms},
		{"prepared too late", 1 * ms, 20 * ms, 5 * ms, 24*ms + 1, 0, 25 * ms},
		{"a process that stood still", 1 * ms, 20 * ms, 5 * ms, 10 * time.Second, 0, 25 * ms},
		{"a repeated grant, in the past but within the slack", 1 * ms, -2 * ms, 5 * ms, 0, 1 * ms, 3 * ms},
		{"a repeated grant, too old", 1 * ms, -5 * ms, 5 * ms, 0, 0, 0},
		{"more slack", 20 * ms, 20 * ms, 100 * ms, 90 * ms, 110 * ms, 120 * ms},
	} {
		bubble(t, c.name, func(t *testing.T) {
			f := newFake().queue("q", leaky.PerSecond(100), func(s *queue.Spec) { s.Slack = unit.Duration(c.slack) }).
				answers(answer{trip: c.trip, jobs: []queue.Reservation{job("q", "a", c.d)}})
			f.synced = c.trip
			w := newWatch()
			var start time.Duration
			var closes time.Time
			run := drainWith(t, f, handlerOf(func(ctx context.Context, _ *Job, gate Gate) error {
				time.Sleep(c.prepare)
				closes = gate.Closes()
				if err := gate.Wait(ctx); err != nil {
					return err
				}
				start = f.now() - f.pinged()
				return nil
			}), Options{Observer: w})
			time.Sleep(time.Minute)
			run.finish()
			const drifted = 50 * us
			if (start - c.start).Abs() > drifted {
				t.Errorf("started at %v, want %v", start, c.start)
			}
			want := queue.Deliver
			if c.start == 0 {
				want = queue.Release
				if w.released[Late] != 1 {
					t.Errorf("released %v, want one Late", w.released)
				}
			} else if late := start - c.d; len(w.late) != 1 || (w.late[0]-late).Abs() > drifted {
				t.Errorf("lateness %v, want %v", w.late, late)
			}
			if v := f.verdicts()["a"].Verdict; v != want {
				t.Errorf("settled as %v, want %v", v, want)
			}
			if at := closes.Sub(f.begin) - f.pinged(); !closes.IsZero() && (at-c.closes).Abs() > drifted {
				t.Errorf("the gate closes at %v, want %v", at, c.closes)
			}
		})
	}
}

type handlerOf func(ctx context.Context, job *Job, gate Gate) error

func (f handlerOf) Handle(ctx context.Context, job *Job, gate Gate) error { return f(ctx, job, gate) }

// The gate may be passed again within the window, but not after it; then the job is released, and has not departed.
func TestWindowAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().queue("q", leaky.PerSecond(100), nil).answers(answer{jobs: []queue.Reservation{job("q", "a", 0)}})
		w := newWatch()
		var got []error
		run := drainWith(t, f, handlerOf(func(ctx context.Context, _ *Job, gate Gate) error {
			got = append(got, gate.Wait(ctx))
			time.Sleep(5 * ms)
			got = append(got, gate.Wait(ctx))
			time.Sleep(1 * time.Nanosecond)
			err := gate.Wait(ctx)
			got = append(got, err)
			return fmt.Errorf("sending: %w", err)
		}), Options{Observer: w})
		synctest.Wait()
		time.Sleep(time.Second)
		run.finish()
		if len(got) != 3 || got[0] != nil || got[1] != nil || !errors.Is(got[2], ErrLate) {
			t.Errorf("the gate said %v", got)
		}
		if len(w.late) != 0 || w.released[Late] != 1 {
			t.Errorf("%d departures, want none; released %v, want one late", len(w.late), w.released)
		}
		if v := f.verdicts()["a"].Verdict; v != queue.Release {
			t.Errorf("settled as %v", v)
		}
	})
}

func TestGateContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().queue("q", leaky.PerSecond(100), nil).answers(answer{jobs: []queue.Reservation{job("q", "a", 40*ms)}})
		cause := errors.New("changed my mind")
		run := drainWith(t, f, handlerOf(func(ctx context.Context, _ *Job, gate Gate) error {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(10*ms, func() { cancel(cause) })
			err := gate.Wait(ctx)
			if !errors.Is(err, cause) || f.now() != 10*ms {
				t.Errorf("%v at %v", err, f.now())
			}
			return err
		}), Options{})
		time.Sleep(time.Second)
		run.finish()
		if v := f.verdicts()["a"]; v.Verdict != queue.Fail || v.Reason != cause.Error() {
			t.Errorf("settled as %+v", v)
		}
	})
}

// After a stall, the starts of a queue keep their distances and do not bunch, and the lateness wears off.
func TestSpacing(t *testing.T) {
	const n = 40
	synctest.Test(t, func(t *testing.T) {
		f := newFake().queue("q", leaky.PerSecond(100), func(s *queue.Spec) { s.Slack = unit.Duration(10 * time.Second) })
		var jobs []queue.Reservation
		for i := range n {
			jobs = append(jobs, job("q", fmt.Sprintf("%02d", i), time.Duration(i)*10*ms))
		}
		f.answers(answer{jobs: jobs})
		h := newStarts(f)
		run := drainWith(t, f, handlerOf(func(ctx context.Context, job *Job, gate Gate) error {
			time.Sleep(55*ms - f.now()) // no handler is ready before 55 ms
			return h.Handle(ctx, job, gate)
		}), Options{})
		time.Sleep(time.Minute)
		run.finish()
		if len(h.at) != n {
			t.Fatalf("%d started, want %d", len(h.at), n)
		}
		at := slices.Sorted(maps.Values(h.at))
		if at[0] != 55*ms {
			t.Errorf("first start at %v", at[0])
		}
		for i := 1; i < n; i++ {
			// After the first, a timer's error is allowed.
			if gap := at[i] - at[i-1]; gap < 9500*time.Microsecond && (i > 1 || gap < 9*ms) {
				t.Errorf("starts %d and %d are %v apart, were granted 10ms apart", i-1, i, gap)
			}
		}
		// The initial shift of 55 ms wears off by half a millisecond a job.
		for i, a := range at {
			if late := a - time.Duration(i)*10*ms; late > 55*ms-time.Duration(i)*ms/2 {
				t.Errorf("start %d is %v late", i, late)
			}
		}
	})
}

// A job that was still preparing when a later one started fits in at its own distance, and does not delay those behind
// it.
func TestSpacingOutOfOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().queue("q", leaky.PerSecond(100), func(s *queue.Spec) { s.Slack = unit.Duration(10 * time.Second) }).
			answers(answer{jobs: []queue.Reservation{
				job("q", "a", 0), job("q", "b", 10*ms), job("q", "c", 20*ms), job("q", "d", 40*ms),
			}})
		h := newStarts(f)
		run := drainWith(t, f, handlerOf(func(ctx context.Context, job *Job, gate Gate) error {
			if job.ID == "b" {
				time.Sleep(21 * ms)
			}
			return h.Handle(ctx, job, gate)
		}), Options{})
		time.Sleep(time.Minute)
		run.finish()
		want := map[string]time.Duration{
			"a": 0, "c": 20 * ms,
			"b": 29500 * time.Microsecond, // 0.95 x 10 ms after c
			"d": 48500 * time.Microsecond, // 0.95 x 20 ms after b
		}
		if !maps.Equal(h.at, want) {
			t.Errorf("starts %v, want %v", h.at, want)
		}
	})
}

// Back to back is allowed where granted so, and other queues do not wait.
func TestSpacingBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().queue("q", leaky.PerSecond(100), nil).queue("p", leaky.PerSecond(100), nil).
			answers(answer{jobs: []queue.Reservation{job("q", "a", 10*ms), job("q", "b", 10*ms), job("p", "c", 10*ms)}})
		h := newStarts(f)
		run := drainWith(t, f, h, Options{})
		time.Sleep(time.Minute)
		run.finish()
		for _, id := range []string{"a", "b", "c"} {
			if h.at[id] != 10*ms {
				t.Errorf("%s started at %v", id, h.at[id])
			}
		}
	})
}

// A job whose shift would exceed its window is released at once, not at the end.
func TestSpacingOverSlack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().queue("q", leaky.PerSecond(100), nil).
			answers(answer{jobs: []queue.Reservation{job("q", "a", 0), job("q", "b", 4900*time.Microsecond)}})
		h := newStarts(f)
		run := drainWith(t, f, handlerOf(func(ctx context.Context, job *Job, gate Gate) error {
			if job.ID == "a" {
				time.Sleep(4950 * time.Microsecond)
			}
			return h.Handle(ctx, job, gate)
		}), Options{})
		time.Sleep(time.Minute)
		run.finish()
		if v := f.verdicts()["a"]; v.Verdict != queue.Release || v.at != 4950*time.Microsecond {
			t.Errorf("a was settled as %v at %v", v.Verdict, v.at)
		}
		if h.at["b"] != 4900*time.Microsecond {
			t.Errorf("b started at %v", h.at["b"])
		}
	})
}

// Timer errors and occasional stalls do not add up: at a thousand a second few departures are lost, and the others are
// only slightly late.
func TestLatenessHeals(t *testing.T) {
	const n, slack = 20_000, 5 * ms
	rng := rand.New(rand.NewPCG(1, 2))
	p := &pace{}
	at := time.Now()
	begin, lost, sum := at, 0, time.Duration(0)
	for i := range n {
		r := &delivery{Window: departure.Window{DepartsBy: begin.Add(time.Duration(i) * ms)}, slack: slack, interval: ms}
		wake := func(due time.Time) {
			if at.Before(due) { // the previous goroutine may still be running
				at = due.Add(time.Duration(rng.Int64N(int64(ms))))
				if rng.IntN(20) == 0 {
					at = at.Add(2*ms + time.Duration(rng.Int64N(int64(2*ms))))
				}
			}
		}
		wake(r.DepartsBy)
		for {
			wait := p.start(r, at)
			if at.Add(wait).Sub(r.DepartsBy) > slack {
				p.leave(r)
				lost++
				break
			}
			if wait == 0 {
				sum += at.Sub(r.DepartsBy)
				break
			}
			wake(at.Add(wait))
		}
	}
	t.Logf("%d of %d lost, %v late on average", lost, n, sum/n)
	if lost > n/100 || sum/n > 3*ms {
		t.Errorf("%d of %d lost, %v late on average", lost, n, sum/n)
	}
}

// Without a rate there are no distances, no timer, and more patience.
func TestUnlimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().queue("q", leaky.Unlimited, nil).answers(
			answer{jobs: []queue.Reservation{job("q", "a", 0)}, more: queue.Reserved{Next: ms}},
			answer{trip: 100 * ms, jobs: []queue.Reservation{job("q", "b", 0), job("q", "c", 0)}},
			answer{trip: 1100 * ms, jobs: []queue.Reservation{job("q", "d", 0)}},
		)
		h := newStarts(f)
		run := drainWith(t, f, h, Options{})
		time.Sleep(time.Minute)
		run.finish()
		want := map[string]time.Duration{"a": 0, "b": 101 * ms, "c": 101 * ms}
		if !maps.Equal(h.at, want) {
			t.Errorf("starts %v, want %v", h.at, want)
		}
		if v := f.verdicts()["d"].Verdict; v != queue.Release {
			t.Errorf("d, granted over a second before the answer, was settled as %v", v)
		}
	})
}
