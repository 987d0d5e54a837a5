package queuetest_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/test/long"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/queuetest"
	"github.com/penstock/penstock/queue/redisq"
)

// TestMain has rapid draw fewer runs in the short form, unless a flag says how many.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !given {
		if err := flag.Set("rapid.checks", long.Of("40", "100")); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// The engines' packages run the suite on one Redis, and on a file. The runs here use the same code on other stores, so
// they leave out the forecasts. On a cluster, the short form runs every third rule: rules run the same scripts there.

const butForecasts = queuetest.Concurrent | queuetest.Sequential

func TestConformanceOnACluster(t *testing.T) {
	t.Parallel()
	client := redistest.NewCluster(t, redistest.ClusterOptions{}).Client()
	part := queuetest.Part{Chapters: butForecasts, Every: long.Of(3, 1)}
	queuetest.RunPart(t, part, func(t testing.TB, now func() leaky.Instant) queue.Engine {
		ctx := context.Background()
		err := client.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return c.FlushAll(ctx).Err() })
		if err != nil {
			t.Fatal(err)
		}
		return openRedis(t, client, redisq.Options{Partitions: 4, Now: now})
	})
}

func TestConformanceInMemory(t *testing.T) {
	t.Parallel()
	queuetest.RunPart(t, queuetest.Part{Chapters: butForecasts}, inMemory)
}

// onBolt opens each store in its own file.
func onBolt(t testing.TB, now func() leaky.Instant) queue.Engine {
	e, err := boltq.Open(context.Background(), filepath.Join(t.TempDir(), "store"), boltq.Options{Now: now})
	return closing(t, e, err)
}

func inMemory(t testing.TB, now func() leaky.Instant) queue.Engine {
	e, err := boltq.OpenMemory(context.Background(), boltq.Options{Now: now})
	return closing(t, e, err)
}

func closing(t testing.TB, e *boltq.Engine, err error) queue.Engine {
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

// onRedis opens all stores on one server, each under its own prefix.
func onRedis(t testing.TB, addr string) queuetest.Open {
	client := redis.NewClient(&redis.Options{
		Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true, ReadTimeout: redistest.Patience,
		WriteTimeout: redistest.Patience,
	})
	t.Cleanup(func() { _ = client.Close() })
	var count atomic.Int64
	return func(t testing.TB, now func() leaky.Instant) queue.Engine {
		n := count.Add(1)
		return openRedis(t, client, redisq.Options{
			Now: now, Prefix: fmt.Sprint("s", n), Partitions: []int{1, 4, 16}[n%3],
		})
	}
}

// openRedis creates a store, which is closed when the test ends.
func openRedis(t testing.TB, client redis.UniversalClient, o redisq.Options) queue.Engine {
	t.Helper()
	o.Init, o.Patience = true, redistest.Patience
	e, err := redisq.OpenClient(context.Background(), client, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// Two stores of one engine agree, whatever their medium: only operations and instants decide an answer.
func TestAnEngineAgreesWithItself(t *testing.T) {
	t.Parallel()
	queuetest.Differential(t, onBolt, inMemory)
}

func TestEnginesAgree(t *testing.T) {
	t.Parallel()
	queuetest.Differential(t, inMemory, onRedis(t, redistest.New(t, redistest.Options{}).Addr()))
}
