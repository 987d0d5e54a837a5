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

// Leases of long work are extended at about a third, until it is done.
func TestExtend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().queue("q", leaky.PerSecond(10), nil).answers(answer{jobs: []queue.Reservation{job("q", "a", 0)}})
		run := drainWith(t, f, HandlerFunc(func(ctx context.Context, _ *Job) error {
			select {
			case <-time.After(45 * time.Second):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}), Options{})
		time.Sleep(2 * time.Minute)
		run.finish()
		if len(f.extends) != 4 {
			t.Errorf("extended at %v, want 4 times", f.extends)
		}
		for i, at := range f.extends {
			if due := time.Duration(i+1) * queue.DefaultLease / 3; at < due || at > due+time.Duration(i+1)*keepEvery {
				t.Errorf("extension %d at %v, want about %v", i, at, due)
			}
		}
		if v := f.verdicts()["a"]; v.Verdict != queue.Deliver {
			t.Errorf("settled as %v", v.Verdict)
		}
	})
}

// A handler whose lease is lost is canceled, and its answer does not count.
func TestLeaseLost(t *testing.T) {
	for _, answers := range []error{nil, errors.New("interrupted"), Permanent(errors.New("never"))} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake().queue("q", leaky.PerSecond(10), nil).answers(answer{jobs: []queue.Reservation{job("q", "a", 0)}})
			f.ext = func(at time.Duration) (time.Duration, error) {
				if at < 15*time.Second {
					return queue.DefaultLease, nil
				}
				return 0, nil
			}
			w := newWatch()
			var ended time.Duration
			run := drainWith(t, f, HandlerFunc(func(ctx context.Context, _ *Job) error {
				<-ctx.Done()
				ended = f.now()
				if !errors.Is(context.Cause(ctx), ErrLeaseLost) {
					t.Errorf("cause %v", context.Cause(ctx))
				}
				return answers
			}), Options{Observer: w})
			time.Sleep(time.Minute)
			run.finish()
			if ended < 20*time.Second || ended > 21*time.Second || w.lost != 1 {
				t.Errorf("canceled at %v, observed %d", ended, w.lost)
			}
			if len(f.settles) != 0 {
				t.Errorf("settled %+v", f.settles)
			}
			if w.free != MaxHandlers(DefaultConcurrency) {
				t.Errorf("%d handlers free", w.free)
			}
		})
	}
}

// A lease that cannot be extended may be lost when it is over. The handler is canceled; only if it finished anyway, its
// result is settled.
func TestLeaseInDoubt(t *testing.T) {
	for _, answers := range []error{nil, errors.New("interrupted")} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake().queue("q", leaky.PerSecond(10), nil).answers(answer{jobs: []queue.Reservation{job("q", "a", 0)}})
			f.ext = func(time.Duration) (time.Duration, error) { return 0, queue.ErrUnavailable }
			w := newWatch()
			var ended time.Duration
			run := drainWith(t, f, HandlerFunc(func(ctx context.Context, _ *Job) error {
				<-ctx.Done()
				ended = f.now()
				return answers
			}), Options{Observer: w})
			time.Sleep(time.Minute)
			run.finish()
			if ended < queue.DefaultLease || ended > queue.DefaultLease+2*keepEvery || w.lost != 1 {
				t.Errorf("canceled at %v, observed %d", ended, w.lost)
			}
			if len(f.extends) < 100 {
				t.Errorf("tried only %d times", len(f.extends))
			}
			if v, ok := f.verdicts()["a"]; ok != (answers == nil) || ok && v.Verdict != queue.Deliver {
				t.Errorf("answered %v, settled %v %v", answers, ok, v.Verdict)
			}
		})
	}
}

// An engine that does not even answer does not delay the handler's cancellation.
func TestLeaseHanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		short := job("q", "a", 0)
		short.Lease = queue.MinLease
		f := newFake().queue("q", leaky.PerSecond(10), nil).answers(answer{jobs: []queue.Reservation{short}})
		var told time.Duration
		ctx, stop := context.WithCancel(context.Background())
		end := make(chan error, 1)
		go func() {
			end <- Run(ctx, &silent{f}, HandlerFunc(func(ctx context.Context, _ *Job) error {
				<-ctx.Done()
				told = f.now()
				return context.Cause(ctx)
			}), Options{PlainTimers: true})
		}()
		time.Sleep(time.Minute)
		stop()
		if err := <-end; err != nil {
			t.Error(err)
		}
		if told < queue.MinLease || told > queue.MinLease+keepEvery {
			t.Errorf("canceled at %v, the lease was over at %v", told, queue.MinLease)
		}
	})
}

// silent is an engine that leaves Extend unanswered.
type silent struct{ *fake }

func (*silent) Extend(ctx context.Context, _ []queue.Lease) ([]queue.Extended, error) {
	<-ctx.Done()
	return nil, queue.ErrOutcomeUnknown
}

// A handler that never comes to its gate cannot keep the job.
func TestLeaseOfAPreparer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().queue("q", leaky.PerSecond(10), nil).answers(answer{jobs: []queue.Reservation{job("q", "a", 0)}})
		run := drainWith(t, f, handlerOf(func(ctx context.Context, _ *Job, _ Gate) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}), Options{})
		time.Sleep(time.Minute)
		run.finish()
		if len(f.extends) != 0 {
			t.Errorf("extended %d times", len(f.extends))
		}
	})
}
