// Package readmit has the outcomes of a job on its way back from the overflow.
package readmit

// Outcome is what happened to a job on its way back.
type Outcome uint8

// The outcomes of queue.Overflow.Readmit, per job. After an outcome that is not final, no later job was looked at.
const (
	NotYet   Outcome = iota // no room, closed, or after an outcome that is not final
	Returned                // the job is in the queue
	Passed                  // it was in before, was cancelled, or is Done: drop it
	TooOld                  // deferred longer than max_age: now a dead job of its queue
	TooLate                 // its expires_at has passed: now a dead job of its queue
	// Clash means that another job has its id. Not final: store it elsewhere, then pass it again as Done.
	Clash
	// Orphaned means that its queue was deleted, and that a new queue has the name. Not final, like Clash.
	Orphaned
	Unreadable // the stored record under its id, or the job, is invalid. Not final, like Clash.
	// TooLarge means that it needs more than max_bytes: now a dead job of its queue.
	TooLarge
)

// Final reports whether the job may be dropped from the overflow.
func (o Outcome) Final() bool {
	return o == Returned || o == Passed || o == TooOld || o == TooLate || o == TooLarge
}

func (o Outcome) String() string {
	return [...]string{
		"not_yet", "returned", "passed", "too_old", "too_late", "clash", "orphaned", "unreadable", "too_large",
	}[o]
}
