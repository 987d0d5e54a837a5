package queue

import (
	"time"

	"github.com/penstock/penstock/leaky"
)

// Reading has a queue's size and counters at one instant, for programs that look at all queues again and again. An
// Info has more and costs more.
type Reading struct {
	Name     string
	Revision int64
	Size     int64 // as Info.Size
	Bytes    int64
	Deferred int64
	Counters
	Outflow float64
	Rate    leaky.Rate // as Info.Rate
	// Condition changes whenever the queue is paused, resumed or stopped, its circuit changes, or a failure counts
	// toward the circuit. It is opaque.
	Condition string
	Now       time.Time // the engine's
}
