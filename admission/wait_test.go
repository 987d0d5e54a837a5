package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// paced is a rule that lets one through every 100 ms.
func paced(name string) rules.Rule {
	return rules.Rule{
		Name: name, Algorithm: leaky.AlgorithmMeter, Bound: rules.Bound{Rate: leaky.PerSecond(10)}, Key: "{lane}",
	}
}

// slots is a rule of so many places.
func slots(name string, n int64) rules.Rule {
	return rules.Rule{
		Name: name, Algorithm: leaky.AlgorithmConcurrency, Key: "{lane}",
		Bound: rules.Bound{Limit: n, TTL: unit.Duration(time.Minute)},
	}
}

// allowed waits for a take and fails the test unless it is allowed.
func allowed(t *testing.T, a *Admission, rule string, take rules.Take, within time.Duration) rules.Taken {
	t.Helper()
	taken, err := a.TakeWait(context.WithoutCancel(t.Context()), rule, take, within)
	if err != nil || !taken.Allowed || taken.Err != nil {
		t.Errorf("%s %+v: %+v, %v", rule, take, taken, err)
	}
	return taken
}

// Callers who ask again as soon as they were allowed all get their turns equally often, with about two requests each.
func TestWaitingCallersGetTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, turns = 4, 100
		s := newStore(paced("api.calls"))
		a, _, _ := begin(t, s)
		passes(t, a, "api.calls", "k", 1)
		ctx, stop := context.WithCancel(t.Context())
		var got [callers]int
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				for ctx.Err() == nil {
					if taken, err := a.TakeWait(ctx, "api.calls", rules.Take{Key: "k"}, 10*time.Second); err == nil && taken.Allowed {
						got[i]++
					}
				}
			})
		}
		time.Sleep(turns*100*time.Millisecond + time.Millisecond)
		stop()
		all.Wait()
		if n := got[0] + got[1] + got[2] + got[3]; n != turns || slices.Max(got[:])-slices.Min(got[:]) > 1 {
			t.Errorf("%v turns, want %d in all and nobody more than one ahead", got, turns)
		}
		if n := s.called("take"); n > 2*turns+callers+1 {
			t.Errorf("%d calls to the store for %d turns", n, turns)
		}
	})
}

// Callers are served in order of arrival, whatever they cost, and other callers of the key do not overtake them.
func TestWaitingCallersKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(paced("api.calls"))
		a, _, _ := begin(t, s)
		passes(t, a, "api.calls", "k", 1)
		var mu sync.Mutex
		var order []string
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				allowed(t, a, "api.calls", rules.Take{Key: "k"}, time.Minute)
				mu.Lock()
				defer mu.Unlock()
				order = append(order, fmt.Sprint(i))
			})
			time.Sleep(time.Millisecond)
		}
		for range 500 { // one that polls in front of them
			if n := passes(t, a, "api.calls", "k", 1); n > 0 {
				break
			}
			if n := passes(t, a, "api.calls", "other", 1); s.called("take") < 3 && n != 1 {
				t.Error("another key is refused with them")
			}
			time.Sleep(time.Millisecond)
		}
		all.Wait()
		if want := []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}; !slices.Equal(order, want) {
			t.Errorf("served in the order %v", order)
		}
	})
}

// A take that would come too late is refused at once, with the time at which it would come after the waiting callers.
func TestWaitTooFarOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, _ := begin(t, newStore(paced("api.calls")))
		passes(t, a, "api.calls", "k", 1)
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { allowed(t, a, "api.calls", rules.Take{Key: "k"}, time.Minute) })
		}
		synctest.Wait()
		begun := time.Now()
		for _, within := range []time.Duration{0, time.Second} {
			taken, err := a.TakeWait(t.Context(), "api.calls", rules.Take{Key: "k"}, within)
			if err != nil || taken.Allowed || taken.RetryAfter != 1100*time.Millisecond || taken.Limit != 1 {
				t.Errorf("within %v: %+v, %v; want 10 before it, and so 1.1 s", within, taken, err)
			}
		}
		plain, err := a.Take(t.Context(), "api.calls", []rules.Take{{Key: "k"}, {Key: "free"}, {
			Op: rules.TakePeek, Key: "k",
		}})
		if err != nil || plain[0].Allowed || plain[0].RetryAfter != 1100*time.Millisecond || !plain[1].Allowed ||
			plain[2].Allowed {
			t.Errorf("%+v, %v", plain, err)
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("it took %v to say so", took)
		}
		allowed(t, a, "api.calls", rules.Take{Key: "k"}, 1100*time.Millisecond)
		all.Wait()
		if took := time.Since(begun); took != 1100*time.Millisecond {
			t.Errorf("the last was let through after %v", took)
		}
	})
}

// Takes that can never pass, of unknown rules and of shadows do not wait.
func TestWaitForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shadow := paced("api.shadow")
		shadow.Action = rules.Shadow
		a, _, _ := begin(t, newStore(paced("api.calls"), shadow))
		begun := time.Now()
		taken, err := a.TakeWait(t.Context(), "api.calls", rules.Take{Key: "k", Cost: 2}, time.Minute)
		var field *invalid.Error
		if err != nil || !errors.As(taken.Err, &field) || field.Field != "cost" {
			t.Errorf("%+v, %v", taken, err)
		}
		if _, err := a.TakeWait(
			t.Context(), "api.none", rules.Take{Key: "k"}, time.Minute,
		); !errors.Is(err, rules.ErrUnknown) {
			t.Errorf("%v", err)
		}
		for range 3 {
			if taken, err := a.TakeWait(t.Context(), "api.shadow", rules.Take{Key: "k"}, time.Minute); err != nil ||
				!taken.Shadow {
				t.Errorf("%+v, %v", taken, err)
			}
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
}

// A place that is given back goes at once to the caller who waited longest. Holders renew theirs without waiting.
func TestWaitForAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, _ := begin(t, newStore(slots("import.slots", 1)))
		held := allowed(t, a, "import.slots", rules.Take{Key: "k", Lease: "one"}, 0)
		next := make(chan rules.Taken)
		go func() { next <- allowed(t, a, "import.slots", rules.Take{Key: "k"}, 30*time.Second) }()
		time.Sleep(time.Second)
		allowed(t, a, "import.slots", rules.Take{Key: "k", Lease: "one"}, 0)
		if taken, err := a.Take(t.Context(), "import.slots", []rules.Take{{Key: "k", Lease: "one"}}); err != nil ||
			!taken[0].Allowed {
			t.Errorf("renewed by a take: %+v, %v", taken, err)
		}
		begun := time.Now()
		if _, err := a.Take(t.Context(), "import.slots", []rules.Take{{
			Op: rules.TakeBack, Key: "k", Lease: held.Lease,
		}}); err != nil {
			t.Fatal(err)
		}
		if taken := <-next; taken.Lease == "" || taken.Lease == "one" || time.Since(begun) != 0 {
			t.Errorf("%+v after %v", taken, time.Since(begun))
		}
	})
}

// A caller who gives up leaves nothing behind: neither a place in the list nor a take.
func TestWaitGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(paced("api.calls"), slots("import.slots", 1))
		a, _, _ := begin(t, s)
		passes(t, a, "api.calls", "k", 1)
		gaveUp := make(chan error, 2)
		first, leave := context.WithCancel(t.Context())
		second, leaveToo := context.WithCancel(t.Context())
		for _, ctx := range []context.Context{first, second} {
			go func() {
				_, err := a.TakeWait(ctx, "api.calls", rules.Take{Key: "k"}, time.Minute)
				gaveUp <- err
			}()
			synctest.Wait()
		}
		third := make(chan time.Duration)
		begun := time.Now()
		go func() {
			allowed(t, a, "api.calls", rules.Take{Key: "k"}, time.Minute)
			third <- time.Since(begun)
		}()
		synctest.Wait()
		leaveToo()
		leave()
		if err := errors.Join(<-gaveUp, <-gaveUp); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if took := <-third; took != 100*time.Millisecond {
			t.Errorf("the third had to wait %v", took)
		}
		if n := a.waitlists.waiting.Load(); n != 0 || len(a.waitlists.keys) != 0 {
			t.Errorf("%d wait in %d lines", n, len(a.waitlists.keys))
		}
		// One whose caller left while the store was asked gives the place back.
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := a.TakeWait(gone, "import.slots", rules.Take{Key: "k"}, time.Minute); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if n := left(t, a, "import.slots", "k"); n != 1 {
			t.Errorf("%d places are left", n)
		}
	})
}

func TestWaitInACrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, _ := begin(t, newStore(slots("import.slots", 1)))
		allowed(t, a, "import.slots", rules.Take{Key: "k"}, 0)
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range maxWaitingKey {
			all.Go(func() { _, _ = a.TakeWait(ctx, "import.slots", rules.Take{Key: "k"}, time.Hour) })
		}
		synctest.Wait()
		if _, err := a.TakeWait(t.Context(), "import.slots", rules.Take{Key: "k"}, time.Hour); !errors.Is(err, ErrCrowded) {
			t.Errorf("one more: %v", err)
		}
		allowed(t, a, "import.slots", rules.Take{Key: "other"}, 0)
		stop()
		all.Wait()
	})
}

// While the store is away the rule's policy decides for waiting callers, too, and the store when it is back.
func TestWaitWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(paced("api.calls"))
		a, _, _ := begin(t, s)
		passes(t, a, "api.calls", "k", 1)
		s.fail(queue.ErrUnavailable)
		begun := time.Now()
		back := time.AfterFunc(5*time.Second, func() { s.fail(nil) })
		defer back.Stop()
		taken := allowed(t, a, "api.calls", rules.Take{Key: "k"}, time.Minute)
		if took := time.Since(begun); taken.Away != "" || took < 5*time.Second || took > 7*time.Second {
			t.Errorf("%+v after %v", taken, took)
		}
		s.fail(queue.ErrUnavailable)
		taken, err := a.TakeWait(t.Context(), "api.calls", rules.Take{Key: "k"}, 2*time.Second)
		if err != nil || taken.Allowed || taken.Away != rules.AwayClosed {
			t.Errorf("%+v, %v", taken, err)
		}
	})
}
