package redisq_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/queuetest"
	"github.com/penstock/penstock/queue/redisq"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	t.Run("single", func(t *testing.T) {
		t.Parallel()
		conform(t, redistest.New(t, redistest.Options{}).Client())
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		conform(t, redistest.NewCluster(t, redistest.ClusterOptions{}).Client())
	})
}

// conform runs the suite on one server or cluster, which each rule finds empty.
func conform(t *testing.T, client redis.UniversalClient) {
	queuetest.Run(t, func(t testing.TB, now func() leaky.Instant) queue.Engine {
		ctx := context.Background()
		flush := func(ctx context.Context, c *redis.Client) error { return c.FlushAll(ctx).Err() }
		var err error
		if cluster, ok := client.(*redis.ClusterClient); ok {
			err = cluster.ForEachMaster(ctx, flush)
		} else {
			err = flush(ctx, client.(*redis.Client))
		}
		if err != nil {
			t.Fatal(err)
		}
		e, err := redisq.Open(ctx, client, redisq.Options{
			Init: true, Partitions: 4, Patience: redistest.Patience,
			Now: now,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		return e
	})
}
