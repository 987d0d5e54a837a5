package boltq

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

func (b *bench) putRule(r queue.Rule) {
	b.Helper()
	if _, err := b.PutRule(context.Background(), r, queue.AnyRevision); err != nil {
		b.Fatal(err)
	}
}

// perHour is a rule that lets through so much under each lane in each hour.
func perHour(name string, limit int64, change ...func(*queue.Rule)) queue.Rule {
	r := queue.Rule{
		Name: name, Algorithm: leaky.AlgorithmFixedWindow, Key: "{lane}",
		Bound: queue.Bound{Limit: limit, Period: queue.Duration(time.Hour)},
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

func (b *bench) take(rule string, take queue.Take) queue.Taken {
	b.Helper()
	a, err := b.Take(context.Background(), rule, []queue.Take{take})
	if err != nil {
		b.Fatal(err)
	}
	if a[0].Err != nil {
		b.Fatal(a[0].Err)
	}
	return a[0]
}

// left is how much passes under a key.
func (b *bench) left(rule, key string) int64 {
	b.Helper()
	d := b.take(rule, queue.Take{Op: queue.TakePeek, Key: key})
	if !d.Allowed {
		return 0
	}
	return d.Remaining + 1 // without the one that was asked for
}

func (b *bench) come(name, lane string, n int) queue.Appended {
	b.Helper()
	j := jobOf(name, n)
	j.Lane = lane
	a, err := b.Append(context.Background(), []queue.Job{j})
	if err != nil {
		b.Fatal(err)
	}
	return a[0]
}

func TestRulesInAndOut(t *testing.T) {
	b := start(t, Options{})
	ctx := context.Background()
	b.putRule(perHour("q.r", 2))
	b.put("q", "unlimited", func(s *queue.Spec) { s.Rules = []string{"q.r"} })
	b.put("q.child", "unlimited")
	for i := range 2 {
		if a := b.come("q.child", "a", i); a.Outcome != queue.Accepted || a.Rules[0].Remaining != int64(1-i) {
			t.Fatalf("%+v", a)
		}
	}
	if a := b.come("q.child", "a", 2); a.Outcome != queue.LimitReached || a.RetryAfter <= 0 || a.Rules[0].Allowed {
		t.Fatalf("%+v", a)
	}
	if got := b.left("q.r", "a"); got != 0 {
		t.Error(got)
	}
	b.reopen()
	if got := b.left("q.r", "a"); got != 0 {
		t.Error(got)
	}
	i, err := b.Rule(ctx, "q.r")
	if err != nil || len(i.Queues) != 1 || i.Queues[0] != "q" {
		t.Errorf("%+v, %v", i, err)
	}
	if err := b.DeleteRule(ctx, "q.r", queue.AnyRevision); !errors.Is(err, queue.ErrRuleInUse) {
		t.Error(err)
	}
	if err := b.ResetRule(ctx, "q.r"); err != nil || b.left("q.r", "a") != 2 {
		t.Error(err, b.left("q.r", "a"))
	}
	b.put("q", "unlimited")
	if err := b.DeleteRule(ctx, "q.r", queue.AnyRevision); err != nil {
		t.Error(err)
	}
	if _, err := b.Take(ctx, "q.r", []queue.Take{{Key: "a"}}); !errors.Is(err, queue.ErrUnknownRule) {
		t.Error(err)
	}
}
