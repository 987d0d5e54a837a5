package machine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// After a commit fails, what its jobs took counts as never asked for, whoever took more meanwhile and however much time
// has passed.
func TestTakesOfAFailedCommitAreUndone(t *testing.T) {
	later := 61 * time.Minute // another window
	for _, r := range oneOfEach() {
		if r.Algorithm == leaky.AlgorithmConcurrency || r.Algorithm == leaky.AlgorithmBudget { // not for queues
			continue
		}
		r.Key = ""
		for _, passes := range []time.Duration{time.Second, 20 * time.Minute, later} {
			t.Run(fmt.Sprint(r.Algorithm, passes), func(t *testing.T) {
				with, without := start(t, Options{behind: true}), start(t, Options{behind: true})
				for _, b := range []*bench{with, without} {
					b.MustPutRule(r)
					b.MustPut("q", "unlimited", func(s *queue.Spec) { s.Rules = []string{r.Name} })
					b.MustTake(r.Name, rules.Take{})
					b.Advance(10 * time.Minute)
				}
				a := NewAppending([]queue.Job{enginetest.Job("q", 1)}, false)
				with.Machine.Append(with.now(), a)
				if c := with.Collect(with.now()); c == nil || a.Answers[0].Outcome != queue.Accepted {
					t.Fatalf("%+v", a.Answers)
				}
				for _, b := range []*bench{with, without} {
					b.Advance(passes)
					b.MustTake(r.Name, rules.Take{})
					b.Advance(time.Second)
					b.MustTake(r.Name, rules.Take{Op: rules.TakeBack})
					b.MustTake(r.Name, rules.Take{})
				}
				with.undo(with.now())
				if got, want := with.taken(r.Name, ""), without.taken(r.Name, ""); got != want {
					t.Errorf("%s, and without the append %s", got, want)
				}
				if got, want := with.Peek(r.Name, ""), without.Peek(r.Name, ""); got != want {
					t.Errorf("%+v, and without the append %+v", got, want)
				}
				if len(with.charged) != 0 {
					t.Errorf("%d charges still wait", len(with.charged))
				}
			})
		}
	}
}

// After a commit fails that gave a departure back, the departure is taken again exactly where it was given back: no
// slot is lost.
func TestRefundsOfAFailedCommitAreUndone(t *testing.T) {
	for name, c := range map[string]struct {
		later bool // the departure is not the latest
		off   bool // the circuit is off
		settlement
	}{
		"unused":                      {settlement: settlement{verdict: queue.Down, unused: true}},
		"unused, and not the latest":  {settlement: settlement{verdict: queue.Down, unused: true}, later: true},
		"unused, the circuit is off":  {settlement: settlement{verdict: queue.Down, unused: true}, off: true},
		"a probe that fails":          {settlement: settlement{verdict: queue.Fail, trouble: true, open: true}},
		"a probe of a target is down": {settlement: settlement{verdict: queue.Down, open: true}},
		"released":                    {settlement: settlement{verdict: queue.Release}},
		"released, not the latest":    {settlement: settlement{verdict: queue.Release}, later: true},
	} {
		for _, queueName := range []string{"q", "g.child", "g"} {
			t.Run(name+" of "+queueName, func(t *testing.T) {
				b := start(t, Options{behind: true})
				change := func(s *queue.Spec) {
					s.Circuit.Failures, s.Circuit.Off, s.OnUnknown = 1, c.off, queue.UnknownHold
					s.Limits = []queue.Limit{
						{Quota: queue.Quota{Max: 100, Per: "d"}}, {Rate: leaky.PerSecond(50), Burst: 1},
					}
				}
				b.MustPut("q", "100/s", change)
				b.MustPut("g", "100/s", change)
				b.MustPut("g.child", "100/s", change)
				b.AppendTo(queueName, 0, 4)
				if c.open {
					b.MustSettle(queue.Down, b.MustReserve(1))
					b.Advance(time.Minute)
				}
				v := b.MustReserve(1)
				if c.later {
					b.MustReserve(1)
				}
				used := func() (all string) {
					for _, name := range []string{"q", "g", "g.child"} {
						p := &b.queues[name].paces
						all += fmt.Sprintf("%s: %+v", name, p.bucket)
						for i := range p.limits {
							all += fmt.Sprintf(" %+v %+v", p.limits[i].bucket, p.limits[i].window)
						}
						all += "\n"
					}
					return all
				}
				before := used()
				s := queue.Settlement{
					Lease:   queue.Lease{Queue: v[0].Queue, ID: v[0].ID, Fence: v[0].Fence},
					Verdict: c.verdict, Trouble: c.trouble, Unused: c.unused,
				}
				if a, _ := b.Machine.Settle(b.now(), []queue.Settlement{s}); a[0].Stale || a[0].Err != nil {
					t.Fatalf("%+v", a[0])
				}
				b.Collect(b.now())
				b.undo(b.now())
				if after := used(); after != before {
					t.Errorf("used before\n%sand after\n%s", before, after)
				}
			})
		}
	}
}

// settlement is what is said about a departure.
type settlement struct {
	verdict         queue.Verdict
	trouble, unused bool
	open            bool // the circuit is open
}

func TestEveryChangeOfARuleCanFail(t *testing.T) {
	n := &noSpace{}
	b := start(t, Options{fault: n.fault, behind: true})
	ctx := context.Background()
	b.MustPutRule(enginetest.PerHour("q.r", 3))
	b.MustPutRule(enginetest.PerHour("q.idle", 3))
	b.MustPut("q", "unlimited", func(s *queue.Spec) { s.Rules, s.Overflow, s.Capacity = []string{"q.r"}, queue.Defer, 2 })
	b.AppendInLane("q", "a", 0)
	b.MustTake("q.idle", rules.Take{Key: "a"})
	asked := func() string {
		list, err := b.ListRules(ctx, "", 10)
		return fmt.Sprint(list, err, b.taken("q.r", "a"), b.taken("q.idle", "a"))
	}
	var failed string
	fails := func(what string, f func() error) {
		t.Helper()
		before := asked()
		n.refuse(b, what, f)
		if after := asked(); before != after {
			failed = after
			t.Errorf("%s changed\n%s\ninto\n%s", what, before, failed)
		}
	}
	fails("put", func() error { return second(b.PutRule(ctx, enginetest.PerHour("q.r", 5), queue.AnyRevision)) })
	fails("create", func() error { return second(b.PutRule(ctx, enginetest.PerHour("q.new", 5), queue.AnyRevision)) })
	fails("reset", func() error { return b.ResetRule(ctx, "q.r") })
	fails("delete", func() error { return b.DeleteRule(ctx, "q.idle", queue.AnyRevision) })
	lane := func(i int) queue.Job { j := enginetest.Job("q", i); j.Lane = "a"; return j }
	fails("append", func() error { return second(b.Append(ctx, []queue.Job{lane(1)})) })
	b.AppendInLane("q", "b", 3)
	fails("offer", func() error { return second(b.Offer(ctx, []queue.Job{lane(4)})) })
	// A failed Put that names a rule, or no longer does, leaves the rule's uses unchanged.
	fails("name", func() error {
		return second(b.Put(ctx, queue.Spec{Name: "q", Rules: []string{"q.idle"}}, queue.AnyRevision))
	})
	if err := b.DeleteRule(ctx, "q.r", queue.AnyRevision); !errors.Is(err, rules.ErrInUse) {
		t.Error(err)
	}
	fails("a queue that names it", func() error {
		return second(b.Put(ctx, queue.Spec{Name: "q.child", Rules: []string{"q.idle"}}, queue.AnyRevision))
	})
	if err := b.DeleteRule(ctx, "q.idle", queue.AnyRevision); err != nil {
		t.Error(err)
	}
	if _, err := b.Rule(ctx, "q.new"); !errors.Is(err, rules.ErrUnknown) {
		t.Errorf("a rule that was not made: %v", err)
	}
	b.MustPutRule(enginetest.PerHour("q.new", 1))
	b.reopen()
	if left := b.Left("q.r", "a"); left != 2 {
		t.Errorf("%d left", left)
	}
}

// What a failed commit gave back to a quota is counted again only in the same window. In a later window, it would
// restore the earlier window and forget what was used since.
func TestAQuotaKeepsItsWindowAfterAFailedCommit(t *testing.T) {
	for _, passes := range []time.Duration{time.Second, time.Minute, 3 * time.Minute} {
		b := start(t, Options{behind: true})
		b.MustPut("q", "unlimited", func(s *queue.Spec) {
			s.OnUnknown, s.Lease = queue.UnknownHold, unit.Duration(time.Hour)
			s.Limits = []queue.Limit{{Quota: queue.Quota{Max: 3, Per: "m"}}}
		})
		b.AppendTo("q", 0, 10)
		b.Advance(time.Minute)
		v := b.MustReserve(1)
		b.Advance(passes)
		b.MustReserve(9)
		if n := len(b.MustReserve(9)); n != 0 {
			t.Fatalf("after %v: %d more than the quota", passes, n)
		}
		before := b.queues["q"].limits[0].window
		s := enginetest.Settlements(queue.Down, v)
		s[0].Unused = true
		b.Machine.Settle(b.now(), s)
		b.Collect(b.now())
		b.undo(b.now())
		if after := b.queues["q"].limits[0].window; after != before {
			t.Errorf("after %v: the window is %+v, and was %+v", passes, after, before)
		}
	}
}

// Actual costs are learned with their settlements: once, although they are repeated after a failed commit.
func TestActualCostsAreLearnedOnce(t *testing.T) {
	b := start(t, Options{behind: true})
	b.MustPut("q", "unlimited", func(s *queue.Spec) {
		s.Lease = unit.Duration(time.Hour)
		s.Limits = []queue.Limit{{Unit: "tokens", Rate: leaky.PerSecond(1_000_000), Burst: 1_000_000}}
		s.Estimate = map[string]queue.Estimate{"tokens": {Default: 5, Learn: "p50"}}
	})
	b.AppendTo("q", 0, 2)
	v := b.MustReserve(2)
	settle := func(fails bool) {
		s := enginetest.Settlements(queue.Deliver, v)
		for i := range s {
			s[i].Actual = map[string]int64{"tokens": 9}
		}
		if !fails {
			if _, err := b.Engine.Settle(context.Background(), s); err != nil {
				t.Fatal(err)
			}
			return
		}
		b.Machine.Settle(b.now(), s)
		b.Collect(b.now())
		b.undo(b.now())
	}
	check := func(want int) {
		t.Helper()
		known := 0
		for _, l := range b.queues["q"].learnedCosts() {
			known += l.Costs.Costs()
		}
		if known != want {
			t.Fatalf("%d costs are known, want %d", known, want)
		}
	}
	settle(true)
	check(0)
	settle(false)
	check(2)
	settle(true)
	check(2)
	b.reopen()
	settle(false)
	check(2)
}
