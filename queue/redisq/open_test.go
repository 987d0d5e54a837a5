package redisq_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/redisq"
)

// A URL is enough for an engine, which has the partitions that its store has, and ends its connections.
func TestOpenURL(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	open := func(o redisq.Options) *redisq.Engine {
		t.Helper()
		o.Patience = redistest.Patience
		e, err := redisq.Open(t.Context(), s.URL(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		return e
	}
	first := open(redisq.Options{Init: true, Partitions: 3})
	if _, err := first.Put(t.Context(), queue.Spec{Name: "mail", Rate: leaky.PerSecond(1)}, 0); err != nil {
		t.Fatal(err)
	}
	seen := &hook{}
	again := open(redisq.Options{Hook: seen})
	if n := again.Partitions(); n != 3 {
		t.Errorf("a store of 3 partitions is opened with %d", n)
	}
	if _, err := again.Get(t.Context(), "mail"); err != nil || seen.commands == 0 {
		t.Errorf("%v; the hook saw %d commands", err, seen.commands)
	}
	for range 2 {
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := again.Check(t.Context()); err == nil {
		t.Error("the connections are left after Close")
	}
	var field *invalid.Error
	if _, err := redisq.Open(t.Context(), "localhost:6379", redisq.Options{}); !errors.As(err, &field) ||
		field.Field != "url" {
		t.Errorf("no URL: %v", err)
	}
}

// hook counts commands.
type hook struct{ commands int }

func (h *hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, c redis.Cmder) error {
		h.commands++
		return next(ctx, c)
	}
}

func (h *hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A client that would repeat calls, or outlast a deadline, is refused before it is used.
func TestOpenClientRefusesClients(t *testing.T) {
	for name, c := range map[string]struct {
		client redis.UniversalClient
		field  string
	}{
		"go-redis's defaults": {redis.NewClient(&redis.Options{}), "client.MaxRetries"},
		"no deadlines":        {redis.NewClient(&redis.Options{MaxRetries: -1}), "client.ContextTimeoutEnabled"},
		"a cluster's client that repeats": {
			redis.NewClusterClient(&redis.ClusterOptions{MaxRetries: 2, ContextTimeoutEnabled: true}), "client.MaxRetries",
		},
		"a cluster's defaults": {redis.NewClusterClient(&redis.ClusterOptions{}), "client.ContextTimeoutEnabled"},
		"a sentinel's client": {
			redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m"}), "client.MaxRetries",
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := redisq.OpenClient(ctx, c.client, redisq.Options{})
		var field *invalid.Error
		if !errors.As(err, &field) || field.Field != c.field {
			t.Errorf("%s: %v, want an error about %s", name, err, c.field)
		}
		cancel()
		_ = c.client.Close()
	}
}
