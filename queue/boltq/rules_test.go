package boltq

import (
	"context"
	"errors"
	"testing"

	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

func TestRulesInAndOut(t *testing.T) {
	b := start(t, Options{})
	ctx := context.Background()
	b.MustPutRule(enginetest.PerHour("q.r", 2))
	b.MustPut("q", "unlimited", func(s *queue.Spec) { s.Rules = []string{"q.r"} })
	b.MustPut("q.child", "unlimited")
	for i := range 2 {
		if a := b.AppendInLane("q.child", "a", i); a.Outcome != queue.Accepted || a.Rules[0].Remaining != int64(1-i) {
			t.Fatalf("%+v", a)
		}
	}
	if a := b.AppendInLane("q.child", "a", 2); a.Outcome != queue.LimitReached || a.RetryAfter <= 0 || a.Rules[0].Allowed {
		t.Fatalf("%+v", a)
	}
	if got := b.Left("q.r", "a"); got != 0 {
		t.Error(got)
	}
	b.reopen()
	if got := b.Left("q.r", "a"); got != 0 {
		t.Error(got)
	}
	i, err := b.Rule(ctx, "q.r")
	if err != nil || len(i.Queues) != 1 || i.Queues[0] != "q" {
		t.Errorf("%+v, %v", i, err)
	}
	if err := b.DeleteRule(ctx, "q.r", queue.AnyRevision); !errors.Is(err, rules.ErrInUse) {
		t.Error(err)
	}
	if err := b.ResetRule(ctx, "q.r"); err != nil || b.Left("q.r", "a") != 2 {
		t.Error(err, b.Left("q.r", "a"))
	}
	b.MustPut("q", "unlimited")
	if err := b.DeleteRule(ctx, "q.r", queue.AnyRevision); err != nil {
		t.Error(err)
	}
	if _, err := b.Take(ctx, "q.r", []rules.Take{{Key: "a"}}); !errors.Is(err, rules.ErrUnknown) {
		t.Error(err)
	}
}
