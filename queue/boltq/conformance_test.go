package boltq_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/queuetest"
)

func TestConformance(t *testing.T) {
	queuetest.Run(t, opened(func(t testing.TB, o boltq.Options) (*boltq.Engine, error) {
		return boltq.Open(context.Background(), filepath.Join(t.TempDir(), "store"), o)
	}))
}

func TestConformanceInMemory(t *testing.T) {
	queuetest.Run(t, opened(func(_ testing.TB, o boltq.Options) (*boltq.Engine, error) {
		return boltq.OpenMemory(context.Background(), o)
	}))
}

func opened(open func(testing.TB, boltq.Options) (*boltq.Engine, error)) queuetest.Open {
	return func(t testing.TB, now func() leaky.Instant) queue.Engine {
		e, err := open(t, boltq.Options{Now: now})
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
}
