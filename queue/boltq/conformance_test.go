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

// In memory the suite runs in queue/queuetest. make test runs only TestConcurrentConformance under the race detector.

func TestConformance(t *testing.T) {
	queuetest.RunPart(t, queuetest.Part{Chapters: queuetest.Sequential}, onFile)
}

func TestConcurrentConformance(t *testing.T) {
	queuetest.RunPart(t, queuetest.Part{Chapters: queuetest.Concurrent}, onFile)
}

func TestForecasts(t *testing.T) {
	queuetest.RunPart(t, queuetest.Part{Chapters: queuetest.Forecasts}, onFile)
}

func onFile(t testing.TB, now func() leaky.Instant) queue.Engine {
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
