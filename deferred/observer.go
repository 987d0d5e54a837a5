package deferred

import "time"

// Observer is told what happens on the overflow: metrics are made of it. Its methods
// are called from many goroutines and must not block. Embed NoObserver to take only
// some.
type Observer interface {
	// Stored: so many jobs were put on the overflow in one message, which took so long
	// to be acknowledged, or failed with err.
	Stored(queue string, jobs int, took time.Duration, err error)
	// Returned: so many came back into their queue.
	Returned(queue string, jobs int)
	// DeadLetter: so many became dead letters, on the overflow's stream of them, or in the
	// queue's own keeping (TooOld, TooLate, TooLarge). queue is empty where there is none.
	DeadLetter(queue string, reason Reason, jobs int)
	// DeadLetterFailed: an attempt to store dead letters failed with err. It is made again;
	// until it succeeds, nothing behind them comes back into the queue.
	DeadLetterFailed(queue string, err error)
	// Missing: so many were recorded as deferred, and the overflow does not have them.
	Missing(queue string, jobs int)
	// Depth: about so many are deferred, the oldest since then, as seen by this process,
	// which has the queue's way back to itself. With no jobs and no instant there are none,
	// or another process has it now.
	Depth(queue string, jobs int64, oldest time.Time)
}

// Reason is why a job became a dead letter.
type Reason string

// The reasons.
const (
	Clash        Reason = "clash"         // another job has its id
	Orphaned     Reason = "orphaned"      // its queue was deleted, and a new one has the name
	QueueDeleted Reason = "queue_deleted" // its queue was deleted
	Unreadable   Reason = "unreadable"    // the store has something that is not ours under its id
	NotOurs      Reason = "not_ours"      // a message that Penstock did not write, or a newer one
	TooOld       Reason = "too_old"       // deferred for longer than max_age; a dead letter of its queue
	TooLate      Reason = "too_late"      // its expires-at has passed; a dead letter of its queue
	TooLarge     Reason = "too_large"     // it takes more than max_bytes; a dead letter of its queue
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
