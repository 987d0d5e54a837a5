package queuetest_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/queuetest"
	"github.com/penstock/penstock/queue/redisq"
)

// onBolt opens stores in files of their own.
func onBolt(t testing.TB, now func() leaky.Instant) queue.Engine {
	e, err := boltq.Open(context.Background(), filepath.Join(t.TempDir(), "store"), boltq.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// onRedis opens stores on one server, each under a prefix of its own.
func onRedis(t testing.TB, addr string) queuetest.Open {
	client := redis.NewClient(&redis.Options{
		Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true, ReadTimeout: redistest.Patience,
		WriteTimeout: redistest.Patience,
	})
	t.Cleanup(func() { _ = client.Close() })
	var count atomic.Int64
	return func(t testing.TB, now func() leaky.Instant) queue.Engine {
		n := count.Add(1)
		e, err := redisq.Open(context.Background(), client, redisq.Options{
			Init: true, Now: now, Prefix: fmt.Sprint("s", n), Partitions: []int{1, 4, 16}[n%3],
			Patience: redistest.Patience,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		return e
	}
}

// Two stores of one engine agree: nothing but operations and instants decides
// an answer.
func TestAnEngineAgreesWithItself(t *testing.T) {
	queuetest.Differential(t, onBolt, onBolt)
}

func TestEnginesAgree(t *testing.T) {
	queuetest.Differential(t, onBolt, onRedis(t, redistest.New(t, redistest.Options{}).Addr()))
}
