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

// Rows are queues at an instant: all that a stream is about, at its beginning, or those that have changed.
type Rows struct {
	AsOf   time.Time  `json:"as_of"`
	Queues []QueueRow `json:"queues"`
}
