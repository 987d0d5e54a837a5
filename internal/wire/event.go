package wire

import "time"

// Event is an event of a queue.
type Event struct {
	Kind  string    `json:"kind"`
	Queue string    `json:"queue"`
	At    time.Time `json:"at"` // when the ingress saw it
	// Row is the queue after the event; nil if it was deleted.
	Row *QueueRow `json:"row,omitempty"`
}

// Rows are queues at an instant: at the beginning of a stream all of its queues, later the ones that have changed.
type Rows struct {
	AsOf   time.Time  `json:"as_of"`
	Queues []QueueRow `json:"queues"`
}
