package deferred

import "time"

// Observer observes the overflow, for metrics. Its methods are called concurrently and must not block. Embed
// NoObserver to implement only some of them.
type Observer interface {
	// Stored reports that jobs were put on the overflow in one message, how long the acknowledgment took, and the
	// error if it failed.
	Stored(queue string, jobs int, took time.Duration, err error)
	// Returned reports that jobs came back into their queue.
	Returned(queue string, jobs int)
	// DeadLetter reports that jobs became dead letters on the overflow's stream, or dead jobs of their queue (TooOld,
	// TooLate, TooLarge). queue is empty if there is none.
	DeadLetter(queue string, reason Reason, jobs int)
	// DeadLetterFailed reports that dead letters could not be stored. It is tried again; until it succeeds, nothing
	// behind them comes back into the queue.
	DeadLetterFailed(queue string, err error)
	// Missing reports that jobs were recorded as deferred but are not on the overflow.
	Missing(queue string, jobs int)
	// Depth reports about how many jobs are deferred, and since when the oldest is, as seen by this process, which has
	// the queue's way back. 0 and a zero time mean that there are none, or that another process has the way back now.
	Depth(queue string, jobs int64, oldest time.Time)
}

// Reason is the reason why a job became a dead letter.
type Reason string

// The reasons.
const (
	Clash        Reason = "clash"         // another job has its id
	Orphaned     Reason = "orphaned"      // its queue was deleted, and a new queue has the name
	QueueDeleted Reason = "queue_deleted" // its queue was deleted
	Unreadable   Reason = "unreadable"    // the record under its id in the store is invalid
	NotOurs      Reason = "not_ours"      // a message not written by Penstock, or by a newer version
	TooOld       Reason = "too_old"       // deferred longer than max_age; a dead job of its queue
	TooLate      Reason = "too_late"      // its expires_at has passed; a dead job of its queue
	TooLarge     Reason = "too_large"     // needs more than max_bytes; a dead job of its queue
)

// NoObserver is an Observer that does nothing.
type NoObserver struct{}

var _ Observer = NoObserver{}

// Stored does nothing.
func (NoObserver) Stored(string, int, time.Duration, error) {}

// Returned does nothing.
func (NoObserver) Returned(string, int) {}

// DeadLetter does nothing.
func (NoObserver) DeadLetter(string, Reason, int) {}

// DeadLetterFailed does nothing.
func (NoObserver) DeadLetterFailed(string, error) {}

// Missing does nothing.
func (NoObserver) Missing(string, int) {}

// Depth does nothing.
func (NoObserver) Depth(string, int64, time.Time) {}
