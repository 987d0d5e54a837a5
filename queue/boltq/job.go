package boltq

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// job is a job that holds a place. There may be millions: what only a job that
// was granted has stands in its flight.
type job struct {
	id       string
	lane     *lane
	seq      uint64 // the key of its record
	turn     int64  // less its priority
	appended leaky.Instant
	print    [8]byte // fingerprint
	busy     *call   // the change under way; nil if none
	flight   *flight
	size     uint32 // of its record
	cost     uint16
	state    queue.State // StateNone until its append is on disk
	marks    marks
}

// marks are what is special about a job.
type marks uint8

const (
	cameBack marks = 1 << iota // from the overflow
	expires                    // at an instant that its line knows
)

// flight is what a job has that was granted at least once.
type flight struct {
	job      *job
	attempts int
	fence    fence         // of the lease, or of the last one
	settled  fence         // of the last one that was settled, with
	verdict  queue.Verdict // and
	result   queue.State
	due      leaky.Instant // leased: departure; scheduled: until when; held: since when
	deadline leaky.Instant // leased
	place    int           // in the heap of leases or of those that are coming; -1 in none
	drainer  string        // who has it, or had it
	reason   string
	past     []byte // its timeline, as stored; nobody writes into it
	saved    bool   // the file has a record of it
	lent     bool   // the file says that it is leased
	counts   bool   // as in flight in its lane
}

// priority is what the job's turn has in it.
func (j *job) priority() int { return priorityOf(j.turn) }

func priorityOf(turn int64) int { return int(queue.MaxPriority - turn>>urgency) }

// base is the job's turn without its priority.
func (j *job) base() int64 { return firstTurn | j.turn&(1<<urgency-1) }

func (j *job) inFlight() *flight {
	if j.flight == nil {
		j.flight = &flight{job: j, place: -1}
	}
	return j.flight
}

// ended is what is remembered of a job that ended.
type ended struct {
	id       string
	key      uint64        // of its record among the ended
	seq      uint64        // of its job's record, which dead ones keep; else 0
	fence    fence         // of the last settlement, with
	verdict  queue.Verdict // and
	result   queue.State
	state    queue.State
	print    [8]byte
	cost     uint16
	attempts int
	appended leaky.Instant
	at       leaky.Instant
	reason   string
	// Of the last attempt of a delivered one, in memory alone.
	departed leaky.Instant
	drainer  string
}

// attempt is the one that ends now.
func (f *flight) attempt(o queue.AttemptOutcome, answer string, now leaky.Instant) queue.Attempt {
	return queue.Attempt{At: f.due.Time(), EndedAt: now.Time(), Drainer: f.drainer, Outcome: o, Answer: answer}
}

func newLeases() heap[*flight] {
	return heap[*flight]{
		less: func(a, b *flight) bool {
			if a.deadline != b.deadline {
				return a.deadline < b.deadline
			}
			if a.job.lane.line != b.job.lane.line {
				return a.job.lane.line.number < b.job.lane.line.number
			}
			return a.job.id < b.job.id
		},
		moved: func(f *flight, i int) { f.place = i },
	}
}

// byDue is the order of scheduled and of held jobs.
func byDue(a, b *flight) bool {
	if a.due != b.due {
		return a.due < b.due
	}
	return a.job.id < b.job.id
}

func newLater() heap[*flight] {
	return heap[*flight]{less: byDue, moved: func(f *flight, i int) { f.place = i }}
}
