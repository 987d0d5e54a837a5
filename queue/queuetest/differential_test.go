package queuetest_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/queuetest"
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

// Two stores of one engine agree: nothing but operations and instants decides
// an answer.
func TestAnEngineAgreesWithItself(t *testing.T) {
	queuetest.Differential(t, onBolt, onBolt)
}
