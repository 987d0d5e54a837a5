package wire

import "time"

// Event is something that happened to a queue.
type Event struct {
	Kind  string    `json:"kind"`
	Queue string    `json:"queue"`
	At    time.Time `json:"at"` // when the ingress saw it
	// Row is the queue after it; nil if it was deleted.
	Row *QueueRow `json:"row,omitempty"`
}

// Rows are queues as they are at an instant: all that a stream of events is about, as it begins, or those of which the
// figures are others.
type Rows struct {
	AsOf   time.Time  `json:"as_of"`
	Queues []QueueRow `json:"queues"`
}
