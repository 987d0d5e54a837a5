package machine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// Where a commit fails what it took is as if it had not been asked for, whatever was taken meanwhile, by whom, and
// however much time has passed.
func TestWhatAFailedCommitTook(t *testing.T) {
	later := 61 * time.Minute // another window
	for _, r := range oneOfEach() {
		if r.Algorithm == leaky.AlgorithmConcurrency {
			continue
		}
		for _, passes := range []time.Duration{time.Second, 20 * time.Minute, later} {
			t.Run(fmt.Sprint(r.Algorithm, passes), func(t *testing.T) {
				with, without := start(t, Options{behind: true}), start(t, Options{behind: true})
				for _, b := range []*bench{with, without} {
					b.putRule(r)
					b.put("q", "unlimited", func(s *queue.Spec) { s.Rules = []string{r.Name} })
					b.take(r.Name, queue.Take{})
					b.advance(10 * time.Minute)
				}
				a := NewAppending([]queue.Job{jobOf("q", 1)}, false)
				with.Machine.Append(with.now(), a)
				if c := with.Collect(with.now()); c == nil || a.Answers[0].Outcome != queue.Accepted {
					t.Fatalf("%+v", a.Answers)
				}
				for _, b := range []*bench{with, without} {
					b.advance(passes)
					b.take(r.Name, queue.Take{})
					b.advance(time.Second)
					b.take(r.Name, queue.Take{Op: queue.TakeBack})
					b.take(r.Name, queue.Take{})
				}
				with.undo(with.now())
				if got, want := with.taken(r.Name, ""), without.taken(r.Name, ""); got != want {
					t.Errorf("%s, and without the append %s", got, want)
				}
				if got, want := with.peek(r.Name, ""), without.peek(r.Name, ""); got != want {
					t.Errorf("%+v, and without the append %+v", got, want)
				}
				if len(with.charged) != 0 {
					t.Errorf("%d charges still wait", len(with.charged))
				}
			})
		}
	}
}

func TestEveryChangeOfARuleCanFail(t *testing.T) {
	n := &noSpace{}
	b := start(t, Options{fault: n.fault, behind: true})
	ctx := context.Background()
	b.putRule(perHour("q.r", 3))
	b.putRule(perHour("q.idle", 3))
	b.put("q", "unlimited", func(s *queue.Spec) { s.Rules, s.Overflow, s.Capacity = []string{"q.r"}, queue.Defer, 2 })
	b.come("q", "a", 0)
	b.take("q.idle", queue.Take{Key: "a"})
	rules := func() string {
		list, err := b.ListRules(ctx, "", 10)
		return fmt.Sprint(list, err, b.taken("q.r", "a"), b.taken("q.idle", "a"))
	}
	var failed string
	fails := func(what string, f func() error) {
		t.Helper()
		before := rules()
		n.refuse(b, what, f)
		if after := rules(); before != after {
			failed = after
			t.Errorf("%s changed\n%s\ninto\n%s", what, before, failed)
		}
	}
	fails("put", func() error { return second(b.PutRule(ctx, perHour("q.r", 5), queue.AnyRevision)) })
	fails("create", func() error { return second(b.PutRule(ctx, perHour("q.new", 5), queue.AnyRevision)) })
	fails("reset", func() error { return b.ResetRule(ctx, "q.r") })
	fails("delete", func() error { return b.DeleteRule(ctx, "q.idle", queue.AnyRevision) })
	lane := func(i int) queue.Job { j := jobOf("q", i); j.Lane = "a"; return j }
	fails("append", func() error { return second(b.Append(ctx, []queue.Job{lane(1)})) })
	b.come("q", "b", 3)
	fails("offer", func() error { return second(b.Offer(ctx, []queue.Job{lane(4)})) })
	// A Put that names a rule, or no longer does, leaves it as it was named.
	fails("name", func() error {
		return second(b.Put(ctx, queue.Spec{Name: "q", Rules: []string{"q.idle"}}, queue.AnyRevision))
	})
	if err := b.DeleteRule(ctx, "q.r", queue.AnyRevision); !errors.Is(err, queue.ErrRuleInUse) {
		t.Error(err)
	}
	fails("a queue that names it", func() error {
		return second(b.Put(ctx, queue.Spec{Name: "q.child", Rules: []string{"q.idle"}}, queue.AnyRevision))
	})
	if err := b.DeleteRule(ctx, "q.idle", queue.AnyRevision); err != nil {
		t.Error(err)
	}
	if _, err := b.Rule(ctx, "q.new"); !errors.Is(err, queue.ErrUnknownRule) {
		t.Errorf("a rule that was not made: %v", err)
	}
	b.putRule(perHour("q.new", 1))
	b.reopen()
	if left := b.left("q.r", "a"); left != 2 {
		t.Errorf("%d left", left)
	}
}
