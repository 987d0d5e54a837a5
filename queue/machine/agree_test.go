package machine_test

import (
	"context"
	"testing"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/queuetest"
)

// The machine answers as the embedded engine does, whatever is asked in whatever order.
func TestTheMachineAgreesWithTheEmbeddedEngine(t *testing.T) {
	queuetest.Differential(t, func(_ testing.TB, now func() leaky.Instant) queue.Engine {
		return newEngine(now)
	}, func(t testing.TB, now func() leaky.Instant) queue.Engine {
		e, err := boltq.OpenMemory(context.Background(), boltq.Options{Now: now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		return e
	})
}
