package machine_test

import (
	"testing"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/machine"
	"github.com/penstock/penstock/queue/queuetest"
)

// The suite without the forecasts, which run on the engines. Behind the first calls of each subtest, the stored state
// loads to the same state.
func TestConformance(t *testing.T) {
	part := queuetest.Part{Chapters: queuetest.Concurrent | queuetest.Sequential}
	queuetest.RunPart(t, part, func(_ testing.TB, now func() leaky.Instant) queue.Engine {
		return machine.NewCheckedEngine(now)
	})
}
