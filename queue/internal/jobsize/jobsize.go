// Package jobsize has what a job takes of max_bytes, in every engine alike.
package jobsize

import "github.com/penstock/penstock/queue/invalid"

// Overhead is what a job takes beside its id and its record: about what a store needs for its place in sets and
// indices, and what is kept of it while it is in flight.
const Overhead = 512

// StoreShare is the part of a store that a queue without max_bytes may take: a quarter.
const StoreShare = 4

// FairShare is how many times what is free in a store one queue may take of it, so that no queue fills it for others.
const FairShare = 4

// KeptForOthers says that a queue has taken its share.
const KeptForOthers = "little is left, and kept for queues that take less than this one"

// Remembered returns how many jobs that ended may be remembered of a queue with that bound, whatever room it has left:
// as many as fit in an eighth of it, at least 64. Each beyond takes Overhead.
func Remembered(most int64) int64 { return max(64, most/8/Overhead) }

// Of is what a job takes, by its id and its record.
func Of(id string, record int) int64 { return int64(len(id)+record) + Overhead }

// NeverFits is why a job can never come in that takes more than max_bytes, of its lane or of its queue.
func NeverFits(needs, most int64, lane bool) *invalid.Error {
	of := "max_bytes"
	if lane {
		of = "lanes.max_bytes"
	}
	return invalid.Errorf(
		"payload", "",
		"makes the job take %d bytes, and %s of the queue is %d: it can never come in; make it smaller, or raise %s "+
			"(penstock queue set)",
		needs, of, most, of,
	)
}
