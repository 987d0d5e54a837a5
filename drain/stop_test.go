package drain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// When the drainer stops, granted jobs still start at their departures. A job whose handler is not ready by then is
// released as soon as it is too late.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().queue("q", leaky.PerSecond(100), nil).answers(answer{jobs: []queue.Reservation{
			job("q", "started", 0), job("q", "waiting", 40*ms), job("q", "deaf", 40*ms), job("q", "patient", 40*ms),
		}})
		w := newWatch()
		run := drainWith(t, f, handlerOf(func(ctx context.Context, job *Job, gate Gate) error {
			switch job.ID {
			case "deaf": // dials, and ignores its context
				time.Sleep(5 * time.Second)
				if err := gate.Wait(ctx); !errors.Is(err, ErrLate) {
					t.Errorf("the gate said %v", err)
				}
				return nil
			case "patient": // uses its own context, and comes to its gate too late
				<-ctx.Done()
				if err := gate.Wait(context.Background()); !errors.Is(err, ErrLate) || f.now() != 45*ms+1 {
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
		if f.now() != 10*time.Second+40*ms {
			t.Errorf("returned after %v", f.now())
		}
		v := f.verdicts()
		for _, id := range []string{"deaf", "patient"} {
			if v[id].Verdict != queue.Release || v[id].at != 45*ms+1 {
				t.Errorf("%s was settled as %v at %v", id, v[id].Verdict, v[id].at)
			}
		}
		if v["started"].Verdict != queue.Deliver || v["waiting"].Verdict != queue.Deliver || len(f.settles) != 4 ||
			w.released[Stopping] != 2 {
			t.Errorf("settled %v, released %v", v, w.released)
		}
		if r := f.asked(); r[len(r)-1].at > 20*ms {
			t.Errorf("asked at %v", r[len(r)-1].at)
		}
	})
}

// A request in progress when the drainer stops is awaited, and repeated if its answer is lost. The jobs that it brings
// start.
func TestStopDuringRequest(t *testing.T) {
	for _, first := range []answer{
		{trip: 100 * ms, jobs: []queue.Reservation{job("q", "a", 100*ms)}},
		{trip: 100 * ms, err: queue.ErrOutcomeUnknown},
	} {
		synctest.Test(t, func(t *testing.T) {
			next := "a"
			if first.err == nil {
				next = "over" // the request that hands over
			}
			f := newFake().queue("q", leaky.PerSecond(100), nil).answers(first, answer{
				jobs: []queue.Reservation{job("q", next, 0)},
			})
			run := drainWith(t, f, idle, Options{})
			time.Sleep(50 * ms)
			run.finish()
			if v := f.verdicts()["a"]; v.Verdict != queue.Deliver || v.at < 100*ms || v.at > 200*ms {
				t.Errorf("settled as %v at %v", v.Verdict, v.at)
			}
			asked := f.asked()
			if first.err != nil && asked[1].Number != 1 {
				t.Errorf("repeated under number %d", asked[1].Number)
			}
		})
	}
}

// An unreachable engine does not hold up the end of a drainer without jobs.
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

// After the grace period handlers are canceled. Interrupted jobs are released, and jobs finished anyway count.
func TestGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().queue("q", leaky.Unlimited, nil).answers(answer{jobs: []queue.Reservation{
			job("q", "obeys", 0), job("q", "finishes", 0), job("q", "fails", 0), job("q", "gives up", 0),
		}})
		w := newWatch()
		run := drainWith(t, f, HandlerFunc(func(ctx context.Context, job *Job) error {
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), ErrStopping) || f.now() != time.Second+7*time.Second {
				t.Errorf("canceled at %v because %v", f.now(), context.Cause(ctx))
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

// A job that may have been sent must not leave again unseen. A handler past its gate that reports only its cancellation
// knows as little as one whose lease ran out.
func TestGraceAndUnknown(t *testing.T) {
	for on, fate := range map[string]queue.Verdict{
		"": queue.Release, queue.UnknownRetry: queue.Release, queue.UnknownHold: queue.Hold, queue.UnknownDead: queue.Bury,
	} {
		synctest.Test(t, func(t *testing.T) {
			cancelled := map[string]func(context.Context) error{
				"plain": func(ctx context.Context) error { return ctx.Err() },
				"cause": func(ctx context.Context) error { return fmt.Errorf("sending: %w", context.Cause(ctx)) },
				// The kind of failure does not show how far the job came, and it was not the target's.
				"trouble": func(ctx context.Context) error { return Trouble(ctx.Err()) },
			}
			sure := map[string]func(context.Context) error{
				"unsent": func(ctx context.Context) error { return Unsent(ctx.Err()) },
				"late":   func(ctx context.Context) error { return fmt.Errorf("%w: %w", ErrLate, ctx.Err()) },
				"down":   func(ctx context.Context) error { return Down(ctx.Err()) },
			}
			f := newFake().queue("q", leaky.Unlimited, func(s *queue.Spec) { s.OnUnknown = on })
			var jobs []queue.Reservation
			for _, id := range []string{"plain", "cause", "trouble", "unsent", "late", "down", "before"} {
				jobs = append(jobs, job("q", id, 0))
			}
			f.answers(answer{jobs: jobs})
			w := newWatch()
			run := drainWith(t, f, handlerOf(func(ctx context.Context, job *Job, gate Gate) error {
				if job.ID == "before" { // it never came to its gate
					<-ctx.Done()
					return ctx.Err()
				}
				if err := gate.Wait(ctx); err != nil {
					return err
				}
				<-ctx.Done()
				if answer := sure[job.ID]; answer != nil {
					return answer(ctx)
				}
				return cancelled[job.ID](ctx)
			}), Options{Grace: 7 * time.Second, Observer: w})
			time.Sleep(time.Second)
			run.finish()
			v := f.verdicts()
			for id := range cancelled {
				if v[id].Verdict != fate || v[id].Trouble || fate != queue.Release &&
					!strings.HasPrefix(v[id].Reason, "interrupted by the end of the drainer; it may have been sent: ") {
					t.Errorf("on_unknown %q: %s was settled as %+v, want %v", on, id, v[id].Settlement, fate)
				}
			}
			for _, id := range []string{"unsent", "late", "down", "before"} {
				if v[id].Verdict != queue.Release {
					t.Errorf("on_unknown %q: %s was settled as %+v, want it given back", on, id, v[id].Settlement)
				}
			}
		})
	}
}

// deaf is an engine whose calls ignore their contexts and end with hang.
type deaf struct {
	*fake
	hang    chan struct{}
	reserve bool // all calls of Reserve for jobs, except the first
	get     bool // calls of ReadSpecs
	sweep   bool // calls of Sweep
}

func (d *deaf) Reserve(ctx context.Context, r queue.ReserveRequest) (queue.Reserved, error) {
	if d.reserve && r.Number > 2 {
		<-d.hang
	}
	return d.fake.Reserve(ctx, r)
}

func (d *deaf) ReadSpecs(ctx context.Context, names []string) ([]queue.KeptSpec, error) {
	if d.get {
		<-d.hang
	}
	return d.fake.ReadSpecs(ctx, names)
}

func (d *deaf) Sweep(ctx context.Context, partition int) (bool, error) {
	if d.sweep {
		<-d.hang
	}
	return d.fake.Sweep(ctx, partition)
}

// Run leaves behind what cannot be ended, and reports exactly that.
func TestLeftBehind(t *testing.T) {
	const (
		one = "handlers that did not end within 5s of being cancelled: 1; their jobs that may be delivered again when the " +
			"leases have run out: 1"
		lost = "handlers that did not end within 5s of being cancelled: 1; their jobs that may be delivered again when the " +
			"leases have run out: 0"
		calls = "a call to the engine did not return within 5s of being cancelled"
	)
	for _, c := range []struct {
		name   string
		change func(d *deaf)
		wall   bool   // the handler does not end
		gate   bool   // nor does it come to its gate
		want   string // of Run
	}{
		{"nothing", func(*deaf) {}, false, false, ""},
		{"a handler", func(*deaf) {}, true, false, "drain: " + one},
		{"a handler whose job was released", func(*deaf) {}, true, true, "drain: " + lost},
		{
			"a handler whose lease is lost",
			func(d *deaf) { d.ext = func(time.Duration) (time.Duration, error) { return 0, nil } }, true, false,
			"drain: " + lost,
		},
		{"a request", func(d *deaf) { d.reserve = true }, false, false, "drain: " + calls},
		{"a spec", func(d *deaf) { d.get = true }, false, false, "drain: " + calls},
		{"a sweep", func(d *deaf) { d.sweep = true }, false, false, "drain: " + calls},
		{"a handler and a request", func(d *deaf) { d.reserve = true }, true, false, "drain: " + one + "\ndrain: " + calls},
	} {
		bubble(t, c.name, func(t *testing.T) {
			d := &deaf{hang: make(chan struct{}), fake: newFake().queue("q", leaky.Unlimited, nil).answers(
				answer{jobs: []queue.Reservation{job("q", "a", 0)}, more: queue.Reserved{Next: 11 * time.Second, Garbage: true}})}
			c.change(d)
			ctx, stop := context.WithCancel(context.Background())
			end := make(chan error, 1)
			go func() {
				end <- Run(ctx, d, handlerOf(func(ctx context.Context, _ *Job, gate Gate) error {
					if !c.gate {
						if err := gate.Wait(ctx); err != nil {
							return err
						}
					}
					if c.wall {
						<-d.hang
					}
					return nil
				}), Options{Grace: time.Second, PlainTimers: true})
			}()
			begin := 12 * time.Second // by then the lease was to be extended, and more was requested
			if c.gate {
				begin = ms
			}
			time.Sleep(begin)
			stop()
			err := <-end
			if got := text(err); got != c.want {
				t.Errorf("Run: %q, want %q", got, c.want)
			}
			if c.want != "" && d.now() != begin+time.Second+patience {
				t.Errorf("Run took %v", d.now()-begin)
			}
			settled := len(d.verdicts())
			close(d.hang)
			synctest.Wait()
			if len(d.verdicts()) != settled {
				t.Errorf("settled %v after the end", d.verdicts())
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// An engine that does not settle keeps no handler: only the settlements are left to wait for.
func TestStopUnsettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().queue("q", leaky.Unlimited, nil)
		for i := range 20 {
			var jobs []queue.Reservation
			for k := range 100 {
				jobs = append(jobs, job("q", fmt.Sprintf("%d-%d", i, k), 0))
			}
			f.answers(answer{trip: ms, jobs: jobs, more: queue.Reserved{Next: -1}})
		}
		f.set = func(time.Duration, queue.Settlement) (queue.Settled, error) {
			return queue.Settled{}, queue.ErrUnavailable
		}
		run := drainWith(t, f, idle, Options{Concurrency: 100})
		time.Sleep(5 * time.Second)
		run.stop()
		err := <-run.end
		const want = "drain: the engine did not take the last settlements in time; these jobs may be delivered again"
		if text(err) != want || f.now() > 5*time.Second+patience+100*ms {
			t.Errorf("Run: %v at %v, want %s", err, f.now(), want)
		}
	})
}

// Before it leaves, a drainer makes the engine choose another watcher: it requests one last job, as soon as there is
// one.
func TestHandOver(t *testing.T) {
	for _, c := range []struct {
		name  string
		last  time.Duration // time of the last grant before the end
		next  answer
		asks  int           // after the end
		takes time.Duration // of Run, after the end
	}{
		{"at once", 50 * ms, answer{jobs: []queue.Reservation{job("q", "over", 30*ms)}}, 1, 30 * ms},
		{"soon", 50 * ms, answer{more: queue.Reserved{Next: 300 * ms}}, 2, 330 * ms},
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
			if _, started := h.at["over"]; started != given || given != (c.name == "at once" || c.name == "soon") ||
				given && v.Verdict != queue.Deliver {
				t.Errorf("started %v, settled %v as %v", started, given, v.Verdict)
			}
		})
	}
}

// An engine that does not answer holds up the end only for the grace period.
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
