package pull_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/invalid"
)

// turnstile returns the turns of a queue, on an engine in a file.
func turnstile(t *testing.T, spec queue.Spec) (*pull.Turns, queue.Engine) {
	t.Helper()
	e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return turnsOn(t, e, spec), e
}

// turnsOn returns the turns of a queue made on an engine.
func turnsOn(t *testing.T, e *boltq.Engine, spec queue.Spec) *pull.Turns {
	t.Helper()
	if _, err := e.Put(t.Context(), spec, 0); err != nil {
		t.Fatal(err)
	}
	dispatcher := pull.New(e, pull.Options{})
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- dispatcher.Run(ctx) }()
	turns := pull.NewTurns(e, dispatcher, spec.Name)
	t.Cleanup(func() {
		turns.Close()
		stop()
		if err := errors.Join(<-over, e.Close()); err != nil {
			t.Error(err)
		}
	})
	return turns
}

// Callers that wait for their turn start at the rate. Callers whose turn is too far off get an error at once, with the
// time to retry.
func TestTurns(t *testing.T) {
	const callers, delta = 30, 100 * time.Millisecond // delta is wide: the machine may be busy
	rate := leaky.PerSecond(50)
	turns, e := turnstile(t, queue.Spec{Name: "api", Rate: rate, Pull: true})
	begin := time.Now()
	var mu sync.Mutex
	var at []time.Duration
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			if err := turns.Wait(t.Context(), time.Minute); err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Since(begin))
		})
	}
	all.Wait()
	if v := (law.Law{Rate: rate, Slack: queue.LeastSlack, Delta: delta}).Judge(law.At(at)); !v.Held ||
		len(at) != callers {
		t.Errorf("%d starts; %d in %v, allowed %d", len(at), v.Worst.Starts, v.Worst.Width, v.Worst.Allowed)
	}
	turns.Close()
	info, err := e.Get(t.Context(), "api")
	if err != nil || info.Delivered != callers || info.Size() != 0 {
		t.Errorf("%d turns are over, %d are left, %v", info.Delivered, info.Size(), err)
	}
}

func TestTurnTooFarOff(t *testing.T) {
	turns, e := turnstile(t, queue.Spec{Name: "api", Rate: rateOf(t, "1/h"), Pull: true})
	if err := turns.Wait(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	var later *pull.Later
	if err := turns.Wait(t.Context(), time.Minute); !errors.As(err, &later) || later.In < 50*time.Minute ||
		later.In > time.Hour {
		t.Errorf("%v", err)
	}
	// A caller that gives up leaves nothing behind.
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	go func() { gaveUp <- turns.Wait(ctx, 2*time.Hour) }()
	held := func() int64 {
		info, err := e.Get(t.Context(), "api")
		if err != nil {
			t.Fatal(err)
		}
		return info.Waiting
	}
	for begun := time.Now(); held() != 1; {
		if time.Since(begun) > time.Minute {
			t.Fatal("it does not wait")
		}
	}
	cancel()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if n := held(); n != 0 {
		t.Errorf("%d still wait", n)
	}
}

func TestTurnsOfUnknownQueue(t *testing.T) {
	turns, e := turnstile(t, queue.Spec{Name: "api", Rate: leaky.PerSecond(1)})
	var field *invalid.Error
	if err := turns.Wait(t.Context(), time.Minute); !errors.As(err, &field) {
		t.Errorf("a queue that is not a pull queue: %v", err)
	}
	if info, err := e.Get(t.Context(), "api"); err != nil || info.Size() != 0 {
		t.Errorf("%d jobs are left, %v", info.Size(), err)
	}
	none := pull.NewTurns(e, pull.New(e, pull.Options{}), "nowhere")
	if err := none.Wait(t.Context(), time.Minute); !errors.Is(err, queue.ErrUnknownQueue) {
		t.Errorf("an unknown queue: %v", err)
	}
}

func rateOf(t *testing.T, text string) leaky.Rate {
	t.Helper()
	r, err := leaky.ParseRate(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// mute is an engine that never answers.
type mute struct{ pull.TurnEngine }

func (mute) Get(ctx context.Context, _ string) (queue.Info, error) {
	<-ctx.Done()
	return queue.Info{}, ctx.Err()
}

// A caller that gives up while others wait for an engine is released.
func TestTurnsBesideAnEngineThatIsAway(t *testing.T) {
	turns := pull.NewTurns(mute{}, nil, "api")
	patient, release := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer release()
	all.Go(func() { _ = turns.Wait(patient, time.Minute) })
	for range 3 { // in any order, one of them is second
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		gone := make(chan error, 1)
		all.Go(func() { gone <- turns.Wait(ctx, time.Minute) })
		select {
		case err := <-gone:
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Error("it waits for the others")
		}
		cancel()
	}
}

// Promises to callers that stay away lapse while others get turns: a caller that is refused later need not come back
// behind them.
func TestPromisesLapse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := boltq.OpenMemory(t.Context(), boltq.Options{})
		if err != nil {
			t.Fatal(err)
		}
		turns := turnsOn(t, e, queue.Spec{Name: "api", Rate: leaky.PerSecond(10), Pull: true})
		crowd := func() (last time.Duration) { // and none of it comes back
			var all []*pull.Turn
			for range 100 {
				turn, err := turns.Reserve(t.Context(), time.Second)
				var later *pull.Later
				if errors.As(err, &later) {
					last = max(last, later.In)
				} else if err != nil {
					t.Fatal(err)
				} else {
					all = append(all, turn)
				}
			}
			for _, turn := range all {
				turn.Cancel(t.Context())
			}
			return last
		}
		if last := crowd(); last < 8*time.Second || last > 10*time.Second {
			t.Errorf("100 callers of 10 turns per second are told to come back within %v", last)
		}
		time.Sleep(time.Second)
		for range 30 {
			if err := turns.Wait(t.Context(), time.Second); err != nil {
				t.Fatal(err)
			}
		}
		if last := crowd(); last < 8*time.Second || last > 11*time.Second {
			t.Errorf("after 30 turns that nobody else wanted, the last of another crowd comes back in %v", last)
		}
	})
}

// Callers whose turns would be too late retry when told, and are refused about once each.
func TestACrowdOfCallersForTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := boltq.OpenMemory(t.Context(), boltq.Options{})
		if err != nil {
			t.Fatal(err)
		}
		turns := turnsOn(t, e, queue.Spec{Name: "api", Rate: leaky.PerSecond(14), Pull: true})
		const callers = 100
		var refusals atomic.Int64
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				for {
					err := turns.Wait(t.Context(), time.Second)
					var later *pull.Later
					if !errors.As(err, &later) {
						if err != nil {
							t.Error(err)
						}
						return
					}
					refusals.Add(1)
					time.Sleep(later.In)
				}
			})
		}
		all.Wait()
		if n := refusals.Load(); n > callers {
			t.Errorf("%d refusals of %d callers", n, callers)
		}
	})
}
