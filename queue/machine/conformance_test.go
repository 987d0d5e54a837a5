package machine_test

import (
	"testing"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/machine"
	"github.com/penstock/penstock/queue/queuetest"
)

// The suite, and behind the first calls of each rule: what was kept makes the same state again.
func TestConformance(t *testing.T) {
	queuetest.Run(t, func(_ testing.TB, now func() leaky.Instant) queue.Engine { return machine.NewCheckedEngine(now) })
}
