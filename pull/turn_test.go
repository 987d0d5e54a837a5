package pull_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/departure"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/redisq"
	"github.com/penstock/penstock/queue/unit"
)

// onBoth runs a test on each engine; process opens the store as another process does, or returns the only embedded one.
func onBoth(t *testing.T, test func(t *testing.T, process func() queue.Engine)) {
	t.Run("boltq", func(t *testing.T) {
		e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		test(t, func() queue.Engine { return e })
	})
	t.Run("redisq", func(t *testing.T) {
		s := redistest.New(t, redistest.Options{})
		test(t, func() queue.Engine {
			e, err := redisq.OpenClient(t.Context(), s.Client(), redisq.Options{Init: true, Patience: redistest.Patience})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = e.Close() })
			return e
		})
	})
}

// turnsOf returns the turns of a queue in a process, until the test ends.
func turnsOf(t *testing.T, e queue.Engine, name string) *pull.Turns {
	t.Helper()
	dispatcher := pull.New(e, pull.Options{})
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- dispatcher.Run(ctx) }()
	turns := pull.NewTurns(e, dispatcher, name)
	t.Cleanup(func() {
		turns.Close()
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	return turns
}

func infoOf(t *testing.T, e queue.Engine, name string) queue.Info {
	t.Helper()
	info, err := e.Get(context.WithoutCancel(t.Context()), name)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// held returns the number of places taken.
func held(t *testing.T, e queue.Engine, name string) int64 {
	t.Helper()
	info := infoOf(t, e, name)
	return info.Size()
}

// A turn is reserved for a future instant, and callers behind a canceled turn move up.
func TestReserve(t *testing.T) {
	onBoth(t, func(t *testing.T, process func() queue.Engine) {
		e := process()
		if _, err := e.Put(
			t.Context(), queue.Spec{Name: "api", Rate: rateOf(t, "1/h"), Pull: true, Capacity: 3}, 0,
		); err != nil {
			t.Fatal(err)
		}
		turns := turnsOf(t, e, "api")
		first, err := turns.Reserve(t.Context(), time.Minute)
		if err != nil || time.Until(first.At()) > time.Second {
			t.Fatalf("%+v, %v", first, err)
		}
		second, err := turns.Reserve(t.Context(), 5*time.Hour)
		if err != nil || time.Until(second.At()) < 59*time.Minute || time.Until(second.At()) > 61*time.Minute {
			t.Fatalf("%+v, %v", second, err)
		}
		third, err := turns.Reserve(t.Context(), 5*time.Hour)
		if err != nil || third.At().Sub(second.At()) < 59*time.Minute {
			t.Fatalf("%+v, %v", third, err)
		}
		var later *pull.Later
		if _, err := turns.Reserve(t.Context(), 5*time.Hour); !errors.As(err, &later) || later.In <= 0 {
			t.Errorf("a fourth of 3: %v", err)
		}
		second.Cancel(t.Context())
		second.Cancel(t.Context())
		if n := held(t, e, "api"); n != 2 {
			t.Errorf("%d places are taken by 2", n)
		}
		if err := second.Wait(t.Context()); !errors.Is(err, pull.ErrTurnOver) {
			t.Errorf("%v", err)
		}
		again, err := turns.Reserve(t.Context(), 5*time.Hour)
		// Without moving up it would be an hour later. Each answer uses the clock at that moment, and may come late.
		if err != nil || again.At().Sub(third.At()) > time.Minute {
			t.Errorf("it is behind a canceled turn: %v, %v and %v", err, again.At(), third.At())
		}
		if err := first.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Whichever callers give up, in whatever process, even if another got their turn, one place is given back. Each caller
// that enters has one departure, and nothing is left.
func TestACallerThatGivesUpGivesBack(t *testing.T) {
	onBoth(t, func(t *testing.T, process func() queue.Engine) {
		const processes, callers = 3, 30
		e := process()
		if _, err := e.Put(
			t.Context(),
			queue.Spec{Name: "api", Rate: leaky.PerSecond(100), Slack: unit.Duration(50 * time.Millisecond), Pull: true}, 0,
		); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		var in, out atomic.Int64
		var list []*pull.Turns
		for range processes {
			turns := turnsOf(t, process(), "api")
			list = append(list, turns)
			for i := range callers {
				all.Go(func() {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if i%2 == 0 {
						time.AfterFunc(rand.N(900*time.Millisecond), cancel)
					}
					switch err := turns.Wait(ctx, time.Hour); {
					case err == nil:
						in.Add(1)
					case errors.Is(err, context.Canceled):
						out.Add(1)
					default:
						t.Error(err)
					}
				})
			}
		}
		all.Wait()
		for _, turns := range list {
			turns.Close()
		}
		await.Until(t, "nothing is left", func() bool { return held(t, e, "api") == 0 })
		info := infoOf(t, e, "api")
		t.Logf("%d came, %d gave up; %d delivered, %d cancelled", in.Load(), out.Load(), info.Delivered, info.Cancelled)
		if info.Delivered != in.Load() || in.Load() < processes*callers/2 || info.TimedOut != 0 {
			t.Errorf("%d came in by %d departures, %d timed out", in.Load(), info.Delivered, info.TimedOut)
		}
	})
}

// A turn that comes back between the two purges of a cancellation is not left in the queue.
func TestTurnComesBackWhileGivenUp(t *testing.T) {
	onBoth(t, func(t *testing.T, process func() queue.Engine) {
		e := &returning{Engine: process()}
		spec := queue.Spec{Name: "api", Rate: leaky.PerSecond(100), Pull: true}
		if _, err := e.Put(t.Context(), spec, 0); err != nil {
			t.Fatal(err)
		}
		turns := turnsOf(t, e, "api")
		turn, err := turns.Reserve(t.Context(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		holder := queue.ReserveRequest{Client: queue.Client{ID: queue.NewID()}, Number: 1, Max: 1, Queue: "api"}
		res, err := e.Reserve(t.Context(), holder)
		if err != nil || len(res.Jobs) != 1 {
			t.Fatalf("%+v, %v", res, err)
		}
		e.lease = departure.LeaseOf(&res.Jobs[0])
		turn.Cancel(t.Context())
		turns.Close()
		if n := held(t, e, "api"); n != 0 {
			t.Errorf("%d places are taken without an owner", n)
		}
	})
}

// returning releases a lease right after the first purge, which found nothing.
type returning struct {
	queue.Engine
	lease queue.Lease
	once  sync.Once
}

func (r *returning) Purge(ctx context.Context, p queue.PurgeRequest) (purged queue.Purged, err error) {
	purged, err = r.Engine.Purge(ctx, p)
	r.once.Do(func() { _, err = r.Settle(ctx, []queue.Settlement{{Lease: r.lease, Verdict: queue.Release}}) })
	return purged, err
}

// A turn is given back even if the store cannot be reached at first.
func TestTurnGivenUpWhileStoreIsAway(t *testing.T) {
	onBoth(t, func(t *testing.T, process func() queue.Engine) {
		e := &awayOnce{Engine: process()}
		spec := queue.Spec{Name: "api", Rate: leaky.PerSecond(100), Pull: true}
		if _, err := e.Put(t.Context(), spec, 0); err != nil {
			t.Fatal(err)
		}
		turns := turnsOf(t, e, "api")
		turn, err := turns.Reserve(t.Context(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		turn.Cancel(t.Context())
		turns.Close()
		if n := held(t, e, "api"); n != 0 {
			t.Errorf("%d places are taken without an owner", n)
		}
	})
}

// awayOnce cannot be reached for the first purge.
type awayOnce struct {
	queue.Engine
	purges atomic.Int64
}

func (a *awayOnce) Purge(ctx context.Context, p queue.PurgeRequest) (queue.Purged, error) {
	if a.purges.Add(1) == 1 {
		return queue.Purged{}, queue.ErrUnavailable
	}
	return a.Engine.Purge(ctx, p)
}

// A caller without time to wait is not told to retry at once, again and again.
func TestNoTimeToWaitIsNotALoop(t *testing.T) {
	onBoth(t, func(t *testing.T, process func() queue.Engine) {
		e := process()
		spec := queue.Spec{Name: "calls", Rate: rateOf(t, "1/h"), Pull: true}
		if _, err := e.Put(t.Context(), spec, queue.AnyRevision); err != nil {
			t.Fatal(err)
		}
		var later *pull.Later
		if err := turnsOf(t, e, "calls").Wait(t.Context(), 0); !errors.As(err, &later) || later.In < time.Second {
			t.Errorf("without time to wait: %v", err)
		}
	})
}
