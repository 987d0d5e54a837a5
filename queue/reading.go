package queue

import (
	"time"

	"github.com/penstock/penstock/leaky"
)

// Reading is what a queue holds and has counted at one instant: what all queues are looked at for again and again. An
// Info has more, and costs more.
type Reading struct {
	Name     string
	Revision int64
	Size     int64 // as Info.Size
	Bytes    int64
	Deferred int64
	Counters
	Outflow float64
	Rate    leaky.Rate // as Info.Rate
	// Condition is another text whenever the queue is paused, resumed or stopped, its circuit changes, or a failure
	// counts for that. Nothing else can be read out of it.
	Condition string
	Now       time.Time // the engine's
}
