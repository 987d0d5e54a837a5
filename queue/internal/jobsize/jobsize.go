// Package jobsize defines how many bytes a job counts toward max_bytes, the same in every engine.
package jobsize

import "github.com/penstock/penstock/queue/invalid"

// Overhead is what a job counts besides its id and record. It is about what a store needs for its entries in sets and
// indices, and for the job while it is in flight.
const Overhead = 512

// StoreShare is the divisor of a store that bounds a queue without max_bytes: a quarter.
const StoreShare = 4

// FairShare bounds a queue to this multiple of the store's free room, so that no queue fills the store for others.
const FairShare = 4

// KeptForOthers says that a queue has taken its fair part of the store.
const KeptForOthers = "little is left, and kept for queues that take less than this one"

// Remembered returns how many ended jobs a queue with that bound may always remember: as many as fit into an eighth of
// it, at least 64. Each further one counts Overhead.
func Remembered(most int64) int64 { return max(64, most/8/Overhead) }

// Of returns the bytes a job counts, given its id and the length of its record.
func Of(id string, record int) int64 { return int64(len(id)+record) + Overhead }

// NeverFits returns the error of a job that needs more than max_bytes of its lane or queue.
func NeverFits(needs, most int64, lane bool) *invalid.Error {
	of := "max_bytes"
	if lane {
		of = "lanes.max_bytes"
	}
	return invalid.Errorf(
		"payload", "",
		"makes the job take %d bytes, but %s of the queue is %d: the job can never come in; make it smaller, or raise %s "+
			"(penstock queue set)",
		needs, of, most, of,
	)
}
