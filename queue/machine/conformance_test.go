package machine

import (
	"testing"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/move"
	"github.com/penstock/penstock/queue/queuetest"
)

var (
	_ queue.Engine = (*Engine)(nil)
	_ move.Mover   = (*Engine)(nil)
)

// The suite, and behind the first calls of each rule: what was kept makes the same state again.
func TestConformance(t *testing.T) {
	queuetest.Run(t, func(_ testing.TB, now func() leaky.Instant) queue.Engine {
		e := newEngine(now)
		e.checks = 200
		return e
	})
}
