package queuetest_test

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

// Each engine's package runs the suite under the race detector: on one Redis, and on a file. The runs here use the same
// code on other stores; the detector would find the same races again, in twice the time.

func TestConformanceOnACluster(t *testing.T) {
	t.Parallel()
	client := redistest.NewCluster(t, redistest.ClusterOptions{}).Client()
	queuetest.Run(t, func(t testing.TB, now func() leaky.Instant) queue.Engine {
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
	queuetest.Run(t, inMemory)
}
