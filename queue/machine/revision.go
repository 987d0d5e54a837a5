package machine

import (
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// nextRevision returns the revision of a change: milliseconds of the engine's clock, and more than every revision
// before. It says when the change was made, and not how many changes of other queues, rules and documents were.
func (m *Machine) nextRevision(now leaky.Instant) int64 {
	return max(m.store.revision+1, int64(now.Sub(queue.FirstRevision)/time.Millisecond))
}
