package redisq_test

import (
	"context"
	"testing"

	"github.com/penstock/penstock/internal/test/long"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/queuetest"
	"github.com/penstock/penstock/queue/redisq"
)

// The suite runs on one server, which each rule finds empty. On a cluster it runs in queue/queuetest. make test runs
// only TestConcurrentConformance under the race detector.

func TestConformance(t *testing.T) { conforms(t, queuetest.Sequential, 1) }

func TestConcurrentConformance(t *testing.T) { conforms(t, queuetest.Concurrent, 1) }

// The short form runs every fourth scenario. On boltq, which is much faster, all are always run.
func TestForecasts(t *testing.T) { conforms(t, queuetest.Forecasts, long.Of(4, 1)) }

// conforms runs every nth rule, and a fifth of those in make quick.
func conforms(t *testing.T, chapters queuetest.Chapters, n int) {
	t.Parallel()
	if testing.Short() {
		n *= 5
	}
	queuetest.RunPart(t, queuetest.Part{Chapters: chapters, Every: n}, onOneServer(t))
}

func onOneServer(t *testing.T) queuetest.Open {
	client := redistest.New(t, redistest.Options{}).Client()
	return func(t testing.TB, now func() leaky.Instant) queue.Engine {
		ctx := context.Background()
		if err := client.FlushAll(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		return open(t, client, redisq.Options{Init: true, Partitions: 4, Now: now}).e
	}
}
