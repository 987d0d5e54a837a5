package redisq_test

import (
	"context"
	"testing"

	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/queuetest"
	"github.com/penstock/penstock/queue/redisq"
)

// TestConformance runs the suite on one server, which each rule finds empty. On a cluster it is run in queue/queuetest,
// without the race detector.
func TestConformance(t *testing.T) {
	t.Parallel()
	client := redistest.New(t, redistest.Options{}).Client()
	queuetest.Run(t, func(t testing.TB, now func() leaky.Instant) queue.Engine {
		ctx := context.Background()
		if err := client.FlushAll(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		return open(t, client, redisq.Options{Init: true, Partitions: 4, Now: now}).e
	})
}
