package admission

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

func window(name, away string, limit int64) rules.Rule {
	return rules.Rule{
		Name: name, Algorithm: leaky.AlgorithmSlidingLog, Key: "{lane}", Away: away,
		Bound: rules.Bound{Limit: limit, Period: unit.Duration(time.Minute)},
	}
}

func TestTakeAsksTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(window("api.calls", rules.AwayClosed, 3))
		a, w, _ := begin(t, s)
		if n := passes(t, a, "api.calls", "acme", 5); n != 3 {
			t.Errorf("%d passed, 3 may", n)
		}
		if n := passes(t, a, "api.calls", "other", 1); n != 1 {
			t.Error("one key takes from another")
		}
		if _, err := a.Take(t.Context(), "api.none", []rules.Take{{Key: "acme"}}); !errors.Is(err, rules.ErrUnknown) {
			t.Errorf("%v", err)
		}
		if _, err := a.Take(t.Context(), "no rule's name", nil); !errors.Is(err, rules.ErrUnknown) {
			t.Errorf("%v", err)
		}
		if told := w.String(); told != "" {
			t.Errorf("nobody was away: %s", told)
		}
	})
}

// While the store is away the rule's Away decides, and the log says so once.
func TestAway(t *testing.T) {
	for name, away := range map[string]func(*store){
		"refused": func(s *store) { s.fail(queue.ErrUnavailable) },
		"silent":  func(s *store) { s.mute(true) },
		"full":    func(s *store) { s.fail(queue.ErrStoreFull) },
		"flushed": func(s *store) { s.fail(queue.ErrNoStore) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore(
					window("a.open", rules.AwayOpen, 3), window("b.closed", rules.AwayClosed, 3),
					window("c.share", rules.AwayShare, 10),
				)
				s.among = 3
				a, w, log := begin(t, s)
				for _, rule := range []string{"a.open", "b.closed", "c.share"} {
					if n := passes(t, a, rule, "acme", 2); n != 2 {
						t.Fatalf("%s: %d", rule, n)
					}
				}
				synctest.Wait()
				away(s)
				for rule, want := range map[string]int{"a.open": 20, "b.closed": 0, "c.share": 3} {
					begun := time.Now()
					if n := passes(t, a, rule, "acme", 20); n != want {
						t.Errorf("%s: %d passed, want %d", rule, n, want)
					}
					if took := time.Since(begun); took > 2*DefaultPatience {
						t.Errorf("%s: 20 takes waited %v for a store that is known to be away", rule, took)
					}
				}
				if _, err := a.Take(t.Context(), "a.never", []rules.Take{{Key: "k"}}); err == nil {
					t.Error("a rule that was never seen decides nothing")
				}
				taken, err := a.Take(t.Context(), "b.closed", []rules.Take{{Key: "acme"}, {Key: "acme", Cost: 4}, {}})
				if err != nil || taken[0].RetryAfter != time.Second || taken[0].Away != rules.AwayClosed || taken[1].Err == nil ||
					taken[2].Err == nil {
					t.Errorf("%+v, %v", taken, err)
				}
				if told := w.String(); told != "a.open open: 20 and 0\nb.closed closed: 0 and 21\nc.share share: 3 and 17\n" {
					t.Errorf("counted:\n%s", told)
				}
				if n := log.count("the rule's away applies"); n != 3 {
					t.Errorf("%d lines of the log for 3 rules:\n%s", n, log)
				}
				if n := w.failed(); n < 3 || n > 10 {
					t.Errorf("told of %d calls that failed, for 3 groups and 64 takes", n)
				}
				// It is back, and counts on where it stood.
				s.fail(nil)
				s.mute(false)
				time.Sleep(probeEvery + DefaultPatience + time.Second)
				for rule, want := range map[string]int{"a.open": 1, "b.closed": 1, "c.share": 8} {
					if n := passes(t, a, rule, "acme", 20); n != want {
						t.Errorf("%s: %d passed once it is back, want %d", rule, n, want)
					}
				}
				if n := log.count("answers again"); n != 3 {
					t.Errorf("%d lines of the log for 3 groups:\n%s", n, log)
				}
			})
		})
	}
}

// A store that comes back empty is reported as such to callers who get no other answer.
func TestAwayForAnotherReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(window("a.open", rules.AwayOpen, 3))
		a, _, _ := begin(t, s)
		passes(t, a, "a.open", "acme", 1)
		synctest.Wait()
		s.fail(queue.ErrUnavailable)
		passes(t, a, "a.open", "acme", 1)
		s.fail(queue.ErrNoStore)
		time.Sleep(2 * (probeEvery + DefaultPatience))
		if _, err := a.Take(t.Context(), "a.never", []rules.Take{{Key: "k"}}); !errors.Is(err, queue.ErrNoStore) {
			t.Errorf("%v", err)
		}
	})
}

// A caller who gives up gets its own error: the store is not away.
func TestGivingUpIsNotAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(window("a.open", rules.AwayOpen, 3))
		a, w, _ := begin(t, s)
		passes(t, a, "a.open", "k", 1)
		s.mute(true)
		ctx, cancel := contextOf(t, 10*time.Millisecond)
		defer cancel()
		if _, err := a.Take(ctx, "a.open", []rules.Take{{Key: "k"}}); err == nil {
			t.Error("the rule's away decided")
		}
		if told := w.String(); told != "" || w.failed() > 0 {
			t.Errorf("%d failed, %s", w.failed(), told)
		}
	})
}

// overdue is a context whose deadline has come, and which has not noticed yet.
type overdue struct{ context.Context }

func (overdue) Deadline() (time.Time, bool) { return time.Now(), true }

// A connection cut by the caller's deadline, a moment before its context ends, says nothing about the store.
func TestACallersDeadlineIsNotAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(window("a.open", rules.AwayOpen, 3))
		a, w, _ := begin(t, s)
		passes(t, a, "a.open", "k", 1)
		s.fail(queue.ErrOutcomeUnknown)
		if _, err := a.Take(
			overdue{t.Context()}, "a.open", []rules.Take{{Key: "k"}},
		); !errors.Is(err, queue.ErrOutcomeUnknown) {
			t.Errorf("the rule's away decided: %v", err)
		}
		if a.outages.has("a.open") || w.failed() > 0 {
			t.Error("the store is taken to be away")
		}
	})
}

// Callers with less time than it takes to notice that the store is away do not wait in vain forever: the policy
// decides for later ones, however rarely they come.
func TestCallersWithLittleTimeNoticeThatTheStoreIsAway(t *testing.T) {
	for _, every := range []time.Duration{100 * time.Millisecond, 3 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			s := newStore(window("a.open", rules.AwayOpen, 3))
			a, w, _ := begin(t, s)
			passes(t, a, "a.open", "k", 1)
			s.mute(true)
			failed := 0
			for range 20 {
				time.Sleep(every)
				ctx, cancel := contextOf(t, DefaultPatience/2)
				if _, err := a.Take(ctx, "a.open", []rules.Take{{Key: "k"}}); err != nil {
					failed++
				}
				cancel()
			}
			if told := w.String(); failed > 3 || told == "" {
				t.Errorf("one each %v: %d of 20 were not decided; %s", every, failed, told)
			}
		})
	}
}

// A changed rule applies within about a second, and a deleted one is gone.
func TestRulesAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(window("a.rule", rules.AwayOpen, 3))
		a, _, _ := begin(t, s)
		passes(t, a, "a.rule", "k", 1)
		s.put(window("a.rule", rules.AwayClosed, 3))
		for range 11 { // in use all the while
			time.Sleep(100 * time.Millisecond)
			if _, err := a.Take(t.Context(), "a.rule", []rules.Take{{Op: rules.TakePeek, Key: "k"}}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		s.fail(queue.ErrUnavailable)
		if n := passes(t, a, "a.rule", "k", 1); n != 0 {
			t.Error("it goes by what the rule was a second ago")
		}
		s.fail(nil)
		s.drop("a.rule")
		time.Sleep(2 * time.Second)
		if _, err := a.Take(t.Context(), "a.rule", []rules.Take{{Key: "k"}}); !errors.Is(err, rules.ErrUnknown) {
			t.Errorf("%v", err)
		}
	})
}

// A steady caller never waits for its rule to be read: that happens in the background, twice a second.
func TestFollowingCostsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(window("a.rule", rules.AwayOpen, 1000))
		a, _, _ := begin(t, s)
		for range 1000 {
			passes(t, a, "a.rule", "k", 1)
			time.Sleep(10 * time.Millisecond)
		}
		if n := s.called("rule"); n < 10 || n > 21 {
			t.Errorf("the rule was read %d times in 10 s", n)
		}
	})
}

// Without Run a caller finds out that the store is back.
func TestAwayWithoutRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(window("a.rule", rules.AwayOpen, 1))
		a := New(s, Options{})
		passes(t, a, "a.rule", "k", 1)
		s.fail(queue.ErrUnavailable)
		if n := passes(t, a, "a.rule", "k", 5); n != 5 {
			t.Errorf("%d passed", n)
		}
		s.fail(nil)
		time.Sleep(unprobedFor)
		if n := passes(t, a, "a.rule", "k", 5); n != 0 {
			t.Errorf("%d passed once it is back", n)
		}
	})
}
