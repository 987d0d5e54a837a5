package machine_test

import (
	"testing"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/move"
	"github.com/penstock/penstock/queue/queuetest"
)

var (
	_ queue.Engine = (*engine)(nil)
	_ move.Mover   = (*engine)(nil)
)

func TestConformance(t *testing.T) {
	queuetest.Run(t, func(_ testing.TB, now func() leaky.Instant) queue.Engine { return newEngine(now) })
}
