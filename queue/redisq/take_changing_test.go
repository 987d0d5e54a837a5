package redisq_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/coalesce"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
	"github.com/penstock/penstock/queue/rules"
)

// What was answered before a rule began to change all the time stays answered: it was taken. The rest is told that
// nothing was decided.
func TestARuleKeepsChanging(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	other := open(t, s.Client(), redisq.Options{Init: true, Partitions: 1})
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	v := open(t, client, redisq.Options{Partitions: 1})
	limit := int64(1000)
	change := func() {
		limit++
		other.rule(windowRule("r", limit, ""))
	}
	change()
	takes := make([]rules.Take, rules.MaxTakes)
	for i := range takes {
		takes[i].Key = fmt.Sprint(i)
	}
	if _, err := v.e.Take(v.ctx, "r", []rules.Take{{Op: rules.TakePeek}}); err != nil { // now the rule is known
		t.Fatal(err)
	}
	calls := &between{}
	for range 100 {
		calls.then = append(calls.then, change)
	}
	client.AddHook(calls)
	got, err := v.e.Take(v.ctx, "r", takes)
	calls.then = nil
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range got {
		if i < coalesce.MaxItems && (a.Err != nil || !a.Allowed) ||
			i >= coalesce.MaxItems && !errors.Is(a.Err, queue.ErrUnavailable) {
			t.Fatalf("%d: %+v", i, a)
		}
	}
	taken, err := other.e.Take(other.ctx, "r", []rules.Take{
		{Op: rules.TakePeek, Key: "499"},
		{Op: rules.TakePeek, Key: "500"},
	})
	if err != nil || taken[0].Remaining != taken[1].Remaining-1 {
		t.Errorf("%+v, %v: the first should have been taken, the second not", taken, err)
	}
	if _, err := v.e.Take(v.ctx, "r", takes[:1]); err != nil {
		t.Errorf("when it has ended: %v", err)
	}
}
