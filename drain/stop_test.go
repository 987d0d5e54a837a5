package drain

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// When the drainer stops, what has not started goes back at once, wherever its handler
// is; what has started is finished.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().queue("q", leaky.PerSecond(100), nil).answers(answer{jobs: []queue.Reservation{
			job("q", "started", 0), job("q", "waiting", 40*ms), job("q", "deaf", 40*ms), job("q", "patient", 40*ms),
		}})
		w := newWatch()
		run := drainWith(t, f, handlerOf(func(ctx context.Context, job *Job, gate Gate) error {
			switch job.ID {
			case "deaf": // dials, and hears nothing
				time.Sleep(5 * time.Second)
				if err := gate.Wait(ctx); !errors.Is(err, ErrLate) {
					t.Errorf("the gate said %v", err)
				}
				return nil
			case "patient": // a context of its own
				if err := gate.Wait(context.Background()); !errors.Is(err, ErrLate) || f.now() != 20*ms {
					t.Errorf("the gate said %v at %v", err, f.now())
				}
				return errors.New("whatever")
			}
			if err := gate.Wait(ctx); err != nil {
				return err
			}
			time.Sleep(10 * time.Second)
			return ctx.Err()
		}), Options{Observer: w})
		time.Sleep(20 * ms)
		run.finish()
		if f.now() != 10*time.Second {
			t.Errorf("returned after %v", f.now())
		}
		v := f.verdicts()
		for _, id := range []string{"waiting", "deaf", "patient"} {
			if v[id].Verdict != queue.Release || v[id].at != 20*ms {
				t.Errorf("%s was settled as %v at %v", id, v[id].Verdict, v[id].at)
			}
		}
		if v["started"].Verdict != queue.Deliver || len(f.settles) != 4 || w.released[Stopping] != 3 {
			t.Errorf("settled %v, released %v", v, w.released)
		}
		if r := f.asked(); r[len(r)-1].at > 20*ms {
			t.Errorf("asked at %v", r[len(r)-1].at)
		}
	})
}

// A request under way when the drainer stops is awaited, and repeated if its answer is
// lost: what it brings goes back.
func TestStopDuringRequest(t *testing.T) {
	for _, first := range []answer{
		{trip: 100 * ms, jobs: []queue.Reservation{job("q", "a", 0)}},
		{trip: 100 * ms, err: queue.ErrOutcomeUnknown},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake().queue("q", leaky.PerSecond(100), nil).answers(first, answer{jobs: []queue.Reservation{job("q", "a", 0)}})
			run := drainWith(t, f, idle, Options{})
			time.Sleep(50 * ms)
			run.finish()
			if v := f.verdicts()["a"]; v.Verdict != queue.Release || v.at < 100*ms || v.at > 200*ms {
				t.Errorf("settled as %v at %v", v.Verdict, v.at)
			}
			asked := f.asked()
			if first.err != nil && asked[1].Number != 1 {
				t.Errorf("repeated under number %d", asked[1].Number)
			}
		})
	}
}

// An engine that is away does not hold up the end of a drainer that holds nothing.
func TestStopWithoutEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		for range 100 {
			f.answers(answer{err: queue.ErrUnavailable})
		}
		run := drainWith(t, f, idle, Options{})
		time.Sleep(time.Second)
		run.finish()
		if f.now() > 3*time.Second {
			t.Errorf("returned after %v", f.now())
		}
	})
}

// Behind the grace period handlers are cancelled, and what they were interrupted in is
// given back; what they finish all the same counts.
func TestGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().queue("q", leaky.Unlimited, nil).answers(answer{jobs: []queue.Reservation{
			job("q", "obeys", 0), job("q", "finishes", 0), job("q", "fails", 0), job("q", "gives up", 0),
		}})
		w := newWatch()
		run := drainWith(t, f, HandlerFunc(func(ctx context.Context, job *Job) error {
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), ErrStopping) || f.now() != time.Second+7*time.Second {
				t.Errorf("cancelled at %v because %v", f.now(), context.Cause(ctx))
			}
			switch job.ID {
			case "obeys":
				return ctx.Err()
			case "fails":
				return errors.New("broken")
			case "gives up":
				return Permanent(ctx.Err())
			}
			return nil
		}), Options{Grace: 7 * time.Second, Observer: w})
		time.Sleep(time.Second)
		run.finish()
		v := f.verdicts()
		for id, want := range map[string]queue.Verdict{
			"obeys": queue.Release, "finishes": queue.Deliver, "fails": queue.Fail, "gives up": queue.Bury,
		} {
			if v[id].Verdict != want {
				t.Errorf("%s was settled as %v, want %v", id, v[id].Verdict, want)
			}
		}
		if w.released[Interrupted] != 1 {
			t.Errorf("released %v", w.released)
		}
	})
}

// A handler that cannot be ended is left behind, and Run says so.
func TestGraceIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().queue("q", leaky.Unlimited, nil).answers(answer{jobs: []queue.Reservation{job("q", "a", 0)}})
		wall := make(chan struct{})
		run := drainWith(t, f, HandlerFunc(func(context.Context, *Job) error { <-wall; return nil }), Options{Grace: time.Second})
		time.Sleep(ms)
		run.stop()
		if err := <-run.end; err == nil || f.now() != ms+time.Second+patience {
			t.Errorf("Run: %v at %v", err, f.now())
		}
		close(wall)
		synctest.Wait()
		if len(f.settles) != 0 {
			t.Errorf("settled %v behind the end", f.settles)
		}
	})
}

// Before it leaves, a drainer makes the engine look for another watcher: it asks for one
// job more, as soon as there is one, and gives it back.
func TestHandOver(t *testing.T) {
	for _, c := range []struct {
		name  string
		last  time.Duration // when the last grant was, before the end
		next  answer
		asks  int           // after the end
		takes time.Duration // of Run, after the end
	}{
		{"at once", 50 * ms, answer{jobs: []queue.Reservation{job("q", "over", 30*ms)}}, 1, 0},
		{"soon", 50 * ms, answer{more: queue.Reserved{Next: 300 * ms}}, 2, 300 * ms},
		{"not soon", 50 * ms, answer{}, 1, 0},
		{"not under load", 6 * time.Second, answer{jobs: []queue.Reservation{job("q", "over", 0)}}, 0, 0},
		{"failing", 50 * ms, answer{err: queue.ErrUnavailable}, 1, 0},
	} {
		bubble(t, c.name, func(t *testing.T) {
			f := newFake().queue("q", leaky.PerSecond(10), nil).
				answers(answer{jobs: []queue.Reservation{job("q", "a", 0)}, more: queue.Reserved{Next: time.Minute}},
					c.next, answer{jobs: []queue.Reservation{job("q", "over", 30*ms)}})
			h := newStarts(f)
			run := drainWith(t, f, h, Options{Concurrency: 10})
			time.Sleep(c.last)
			run.finish()
			asked := f.asked()[1:]
			if len(asked) != c.asks || f.now() != c.last+c.takes {
				t.Fatalf("asked %d times, and ended after %v", len(asked), f.now()-c.last)
			}
			for i, r := range asked {
				if r.Max != 1 || r.Number != uint64(i)+2 {
					t.Errorf("asked for %d under number %d", r.Max, r.Number)
				}
			}
			v, given := f.verdicts()["over"]
			if _, started := h.at["over"]; started || given != (c.name == "at once" || c.name == "soon") || given && v.Verdict != queue.Release {
				t.Errorf("started %v, settled %v as %v", started, given, v.Verdict)
			}
		})
	}
}

// An engine that does not answer holds up the end for the grace period and no longer.
func TestStopHanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		for range 10 {
			f.answers(answer{trip: time.Hour})
		}
		run := drainWith(t, f, idle, Options{Grace: 2 * time.Second})
		time.Sleep(ms)
		run.finish()
		if f.now() != ms+2*time.Second {
			t.Errorf("returned after %v", f.now())
		}
	})
}
