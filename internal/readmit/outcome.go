// Package readmit has what can become of a job on its way back from the overflow.
package readmit

// Outcome is what became of a job on its way back.
type Outcome uint8

// The outcomes of queue.Overflow.Readmit, per job. After one that is not final nothing behind
// it was looked at.
const (
	NotYet   Outcome = iota // no room, closed, or behind one that is not final
	Returned                // it is in
	Passed                  // it was in before, was cancelled, or is Done: drop it
	TooOld                  // deferred longer than max_age: now a dead letter of its queue
	TooLate                 // its expires-at has passed: now a dead letter of its queue
	// Clash: another job has its id. Not final: keep it elsewhere, then hand it in
	// again as Done.
	Clash
	// Orphaned: the queue it was put aside for was deleted, and this is a new one of
	// that name. Not final, like Clash.
	Orphaned
	Unreadable // what is under its id is not ours, or it is no valid job. Not final, like Clash.
	// TooLarge: it takes more than max_bytes: now a dead letter of its queue.
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
