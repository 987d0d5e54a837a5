package drain

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/internal/departure"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

var idle = HandlerFunc(func(context.Context, *Job) error { return nil })

// A failed request is repeated under its number, so that a grant is not lost with its answer. Jobs without a free
// handler are released.
func TestReserveRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().queue("q", leaky.PerSecond(1000), nil).answers(
			answer{err: queue.ErrOutcomeUnknown, trip: time.Second},
			answer{err: queue.ErrUnavailable},
			answer{
				jobs: []queue.Reservation{
					job("q", "a", 0), job("q", "b", 0), job("q", "d", 0), job("q", "e", 0), job("q", "c", ms),
					job("q", "late", -time.Second),
				},
				more: queue.Reserved{Next: time.Second},
			},
			answer{},
		)
		w := newWatch()
		run := drainWith(t, f, idle, Options{Concurrency: 2, Observer: w})
		time.Sleep(time.Minute)
		run.finish()
		r := f.asked()
		for i, want := range []struct {
			number uint64
			max    int
		}{{1, 2}, {1, 1}, {1, 1}, {2, 2}, {3, 2}} {
			if r[i].Number != want.number || r[i].Max != want.max {
				t.Errorf("request %d: number %d, max %d; want %+v", i, r[i].Number, r[i].Max, want)
			}
		}
		if r[1].at <= r[0].at+time.Second || r[2].at <= r[1].at || r[2].at > 2*time.Second {
			t.Errorf("asked at %v, %v, %v", r[0].at, r[1].at, r[2].at)
		}
		v := f.verdicts()
		if v["a"].Verdict != queue.Deliver || v["b"].Verdict != queue.Deliver {
			t.Errorf("settled %v", v)
		}
		if v["c"].Verdict != queue.Release || v["late"].Verdict != queue.Release || w.released[NoHandler] != 2 {
			t.Errorf("settled %v, released %v", v, w.released)
		}
	})
}

// While requests to one partition fail, the others have its handlers.
func TestReserveFailingPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().queue("q", leaky.Unlimited, nil)
		f.parts = 2
		for range 1000 {
			f.script[0] = append(f.script[0], answer{err: queue.ErrUnavailable})
		}
		var jobs []queue.Reservation
		for i := range 9 {
			jobs = append(jobs, job("q", fmt.Sprint(i), 0))
		}
		f.script[1] = []answer{{trip: ms, more: queue.Reserved{Next: time.Second}}, {jobs: jobs}}
		run := drainWith(t, f, idle, Options{Concurrency: 10})
		time.Sleep(10 * time.Second)
		run.finish()
		if n := len(f.verdicts()); n != 9 {
			t.Errorf("%d jobs settled, want 9", n)
		}
		if n := len(f.asked()); n > 60 {
			t.Errorf("%d requests in 10 s of failure", n)
		}
	})
}

// An unreachable partition keeps no handler, even the only one. After the first failure it asks without a handler, and
// its next grant goes to any free one.
func TestReserveUnreachablePartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().queue("q", leaky.Unlimited, nil)
		f.parts = 2
		const away = 30 * time.Second
		for range 100 {
			f.script[0] = append(f.script[0], answer{trip: 300 * ms, err: queue.ErrUnavailable})
		}
		for i := range 20 {
			f.script[1] = append(f.script[1], answer{
				jobs: []queue.Reservation{job("q", fmt.Sprint(i), 0)}, more: queue.Reserved{Next: time.Second},
			})
		}
		run := drainWith(t, f, idle, Options{Concurrency: 1})
		time.Sleep(away)
		if n := len(f.verdicts()); n != 20 {
			t.Errorf("%d jobs of the partition that answers were settled, want 20", n)
		}
		f.mu.Lock()
		f.script[0] = []answer{{jobs: []queue.Reservation{job("q", "back", 0)}}}
		f.mu.Unlock()
		time.Sleep(5 * time.Second)
		run.finish()
		for id, v := range f.verdicts() {
			if v.Verdict != queue.Deliver {
				t.Errorf("%s was settled as %v", id, v.Verdict)
			}
		}
		if _, ok := f.verdicts()["back"]; !ok {
			t.Error("the partition's first grant after its return was never settled")
		}
	})
}

// When a partition is asked.
func TestNext(t *testing.T) {
	for _, c := range []struct {
		name   string
		next   time.Duration
		wake   time.Duration // when a wake-up comes; the first answer came at 0
		client string        // the named client; "me" is the drainer
		second time.Duration // when it must ask again
	}{
		{"by itself", time.Second, time.Hour, "", time.Second},
		{"named", time.Second, 300 * ms, "me", 300 * ms},
		{"nobody named", time.Second, 300 * ms, "", 300 * ms},
		{"another named", time.Second, 300 * ms, "another", 550 * ms},
		{"another named, due sooner anyway", time.Second, 900 * ms, "another", time.Second},
		{"nothing granted and told to ask at once", -1, time.Hour, "", departure.LeastPause},
	} {
		bubble(t, c.name, func(t *testing.T) {
			f := newFake().answers(answer{more: queue.Reserved{Next: c.next}})
			run := drainWith(t, f, idle, Options{})
			time.Sleep(1 * time.Nanosecond)
			time.AfterFunc(c.wake-1, func() {
				name := c.client
				if name == "me" {
					name = f.asked()[0].Client.ID
				}
				f.wakeups <- queue.Wakeup{Client: name}
				f.wakeups <- queue.Wakeup{Partition: 7} // of no concern to this drainer
			})
			time.Sleep(time.Minute)
			run.finish()
			if got := f.asked()[1].at; got != c.second {
				t.Errorf("asked again at %v, want %v", got, c.second)
			}
		})
	}
}

// A wake-up during a request may be news that the request missed.
func TestWakeDuringRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().answers(answer{trip: 10 * ms, more: queue.Reserved{Next: 2 * time.Second}})
		time.AfterFunc(5*ms, func() { f.wakeups <- queue.Wakeup{} })
		run := drainWith(t, f, idle, Options{})
		time.Sleep(time.Second)
		run.finish()
		r := f.asked()
		if len(r) != 2 || r[1].at != 10*ms {
			t.Errorf("asked %d times, last at %v", len(r), r[len(r)-1].at)
		}
	})
}

// An idle drainer asks as seldom as it is told.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.parts = 16
		run := drainWith(t, f, idle, Options{})
		time.Sleep(20*time.Second + ms)
		run.finish()
		if n := len(f.asked()); n != 16*11 {
			t.Errorf("%d requests in 20 s, want %d", n, 16*11)
		}
	})
}

// Jobs due while no handler was free are requested as soon as one is.
func TestAsksWhenFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().queue("q", leaky.Unlimited, nil).answers(
			answer{
				jobs: []queue.Reservation{job("q", "a", 0), job("q", "b", 0), job("q", "d", 0), job("q", "e", 0)},
				more: queue.Reserved{Next: -1},
			},
			answer{jobs: []queue.Reservation{job("q", "c", 0)}})
		run := drainWith(t, f, HandlerFunc(func(_ context.Context, job *Job) error {
			time.Sleep(
				map[string]time.Duration{"a": 700 * ms, "b": time.Second, "c": 0, "d": time.Second, "e": time.Second}[job.ID],
			)
			return nil
		}), Options{Concurrency: 2})
		time.Sleep(10 * time.Second)
		run.finish()
		if r := f.asked(); r[1].at != 700*ms || r[1].Max != 1 {
			t.Errorf("asked again at %v for %d", r[1].at, r[1].Max)
		}
	})
}

// A partition with an endless backlog leaves handlers to the others.
func TestTokensFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().queue("long", leaky.Unlimited, nil).queue("short", leaky.Unlimited, nil)
		f.parts = 2
		n := 0
		endless := &endless{fake: f, job: func(p int) queue.Reservation {
			n++
			return job([]string{"long", "short"}[p], fmt.Sprint(n), 0)
		}}
		done := map[string]int{}
		gate := make(chan struct{}, 1)
		run := drainWith(t, f, nil, Options{})
		run.finishNothing(t)
		ctx, stop := context.WithCancel(context.Background())
		end := make(chan error, 1)
		go func() {
			end <- Run(ctx, endless, HandlerFunc(func(_ context.Context, job *Job) error {
				time.Sleep(100 * ms)
				gate <- struct{}{}
				done[job.Queue]++
				<-gate
				return nil
			}), Options{Concurrency: 8, PlainTimers: true})
		}()
		time.Sleep(100 * time.Second)
		stop()
		if err := <-end; err != nil {
			t.Error(err)
		}
		total := done["long"] + done["short"]
		if total < 7800 || done["short"] < total*4/10 || done["long"] < total*4/10 {
			t.Errorf("done %v", done)
		}
	})
}

// endless grants everything requested, in every partition.
type endless struct {
	*fake
	job func(partition int) queue.Reservation
}

func (e *endless) Reserve(_ context.Context, r queue.ReserveRequest) (queue.Reserved, error) {
	time.Sleep(ms)
	e.mu.Lock()
	defer e.mu.Unlock()
	var res queue.Reserved
	for range r.Max {
		res.Jobs = append(res.Jobs, e.job(r.Partition))
	}
	return res, nil
}

// finishNothing expects Run to have refused.
func (d *drained) finishNothing(t *testing.T) {
	t.Helper()
	if err := <-d.end; err == nil {
		t.Error("Run without a handler continued")
	}
	d.stop()
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{Concurrency: -1}, {Concurrency: MaxConcurrency + 1}, {Grace: -1}} {
		if err := Run(t.Context(), newFake(), idle, o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}

// One Get serves all jobs of a revision, a new revision asks again, and without a spec the job is released.
func TestSpecs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		second := job("q", "d", 0)
		second.Revision = 2
		f := newFake().queue("q", leaky.Unlimited, nil).answers(
			answer{jobs: []queue.Reservation{job("q", "a", 0), job("q", "b", 0)}, more: queue.Reserved{Next: time.Second}},
			answer{jobs: []queue.Reservation{job("q", "c", 0)}, more: queue.Reserved{Next: time.Second}},
			answer{jobs: []queue.Reservation{second}, more: queue.Reserved{Next: time.Second}},
			answer{jobs: []queue.Reservation{job("q", "old", 0)}, more: queue.Reserved{Next: time.Second}},
			answer{jobs: []queue.Reservation{job("gone", "e", 0)}, more: queue.Reserved{Next: time.Second}},
		)
		bursts := map[string]int64{}
		w := newWatch()
		run := drainWith(t, f, HandlerFunc(func(_ context.Context, job *Job) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			bursts[job.ID] = job.Spec.Burst
			if job.ID == "c" { // then it changes
				info := f.specs["q"]
				info.Spec.Burst, info.Revision = 9, 2
				f.specs["q"] = info
			}
			return nil
		}), Options{Observer: w})
		time.Sleep(time.Minute)
		run.finish()
		if want := map[string]int64{"a": 1, "b": 1, "c": 1, "d": 9, "old": 9}; fmt.Sprint(bursts) != fmt.Sprint(want) {
			t.Errorf("bursts %v, want %v", bursts, want)
		}
		// Nothing is remembered of the deleted queue: a job that needs its spec after the first read reads again.
		if f.reads["q"] != 2 || f.reads["gone"] < 1 || f.reads["gone"] > 2 {
			t.Errorf("specs were read %v times, want 2 of q, and 1 or 2 of gone", f.reads)
		}
		if v := f.verdicts()["e"]; v.Verdict != queue.Release || w.released[NoSpec] != 1 {
			t.Errorf("settled as %v, released %v", v.Verdict, w.released)
		}
	})
}

func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().answers(answer{more: queue.Reserved{Garbage: true}})
		f.more = 5
		run := drainWith(t, f, idle, Options{})
		time.Sleep(time.Second)
		run.finish()
		if f.sweeps != 5 {
			t.Errorf("swept %d times, want 5", f.sweeps)
		}
	})
}

func TestObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().answers(answer{more: queue.Reserved{Expired: []string{"q", "q"}, Lost: map[string]int64{"q": 3}}})
		w := newWatch()
		run := drainWith(t, f, idle, Options{Observer: w, Concurrency: 5})
		time.Sleep(ms)
		run.finish()
		if w.expired != 2 || w.slots["q"] != 3 || w.free != MaxHandlers(5) {
			t.Errorf("%+v", w)
		}
	})
}

// A closed engine ends the drainer with an error, at once.
func TestEngineClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().answers(
			answer{err: fmt.Errorf("reserve: %w", queue.ErrClosed)}, answer{err: queue.ErrClosed}, answer{err: queue.ErrClosed},
		)
		err := Run(context.Background(), f, idle, Options{PlainTimers: true})
		if !errors.Is(err, queue.ErrClosed) || f.now() > time.Second {
			t.Errorf("%v after %v", err, f.now())
		}
	})
}

// Granted jobs do not start once the engine is closed: their results could not be settled, and they would leave again.
func TestNothingStartsOnceTheEngineIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().queue("q", leaky.PerSecond(100), nil).answers(
			answer{jobs: []queue.Reservation{job("q", "a", 40*ms)}, more: queue.Reserved{Next: 10 * ms}},
			answer{err: queue.ErrClosed}, answer{err: queue.ErrClosed},
		)
		h := newStarts(f)
		err := Run(context.Background(), f, h, Options{PlainTimers: true})
		if v := f.verdicts()["a"]; !errors.Is(err, queue.ErrClosed) || len(h.at) != 0 || v.Verdict != queue.Release {
			t.Errorf("%v; started %v, settled as %v", err, h.at, v.Verdict)
		}
	})
}
