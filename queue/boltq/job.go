package boltq

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// job is a job that holds a place. There may be millions: what only a job that
// was granted has stands in its flight.
type job struct {
	id          string
	lane        *lane
	seq         uint64 // the key of its record
	turn        int64  // less its priority
	appended    leaky.Instant
	fingerprint [8]byte // fingerprint
	busy        *call   // the change under way; nil if none
	lease       *lease
	size        uint32 // of its record
	cost        uint16
	state       queue.State // StateNone until its append is on disk
	marks       marks
}

// marks are what is special about a job.
type marks uint8

const (
	readmitted marks = 1 << iota // from the overflow
	expires                      // at an instant that its line knows
)

// lease is what a job has that was granted at least once.
type lease struct {
	job       *job
	attempts  int
	fence     fence         // of the lease, or of the last one
	settled   fence         // of the last one that was settled, with
	verdict   queue.Verdict // and
	result    queue.State
	due       leaky.Instant // leased: departure; scheduled: until when; held: since when
	deadline  leaky.Instant // leased
	heapIndex int           // in the heap of leases or of those that are coming; -1 in none
	drainer   string        // who has it, or had it
	reason    string
	timeline  []byte // its timeline, as stored; nobody writes into it
	onFile    bool   // the file has a record of it
	persisted bool   // the file says that it is leased
	inFlight  bool   // as in flight in its lane
}

// priority is what the job's turn has in it.
func (j *job) priority() int { return priorityOf(j.turn) }

func priorityOf(turn int64) int { return int(queue.MaxPriority - turn>>priorityShift) }

// turnBase is the job's turn without its priority.
func (j *job) turnBase() int64 { return firstTurn | j.turn&(1<<priorityShift-1) }

func (j *job) ensureLease() *lease {
	if j.lease == nil {
		j.lease = &lease{job: j, heapIndex: -1}
	}
	return j.lease
}

// endedJob is what is remembered of a job that ended.
type endedJob struct {
	id          string
	key         uint64        // of its record among the ended
	seq         uint64        // of its job's record, which dead ones keep; else 0
	fence       fence         // of the last settlement, with
	verdict     queue.Verdict // and
	result      queue.State
	state       queue.State
	fingerprint [8]byte
	cost        uint16
	attempts    int
	appended    leaky.Instant
	at          leaky.Instant
	reason      string
	// Of the last attempt of a delivered one, in memory alone.
	departed leaky.Instant
	drainer  string
}

// attempt is the one that ends now.
func (ls *lease) attempt(o queue.AttemptOutcome, answer string, now leaky.Instant) queue.Attempt {
	return queue.Attempt{At: ls.due.Time(), EndedAt: now.Time(), Drainer: ls.drainer, Outcome: o, Answer: answer}
}

func newLeases() heap[*lease] {
	return heap[*lease]{
		less: func(a, b *lease) bool {
			if a.deadline != b.deadline {
				return a.deadline < b.deadline
			}
			if a.job.lane.queue != b.job.lane.queue {
				return a.job.lane.queue.number < b.job.lane.queue.number
			}
			return a.job.id < b.job.id
		},
		moved: func(ls *lease, i int) { ls.heapIndex = i },
	}
}

// byDue is the order of scheduled and of held jobs.
func byDue(a, b *lease) bool {
	if a.due != b.due {
		return a.due < b.due
	}
	return a.job.id < b.job.id
}

func newLater() heap[*lease] {
	return heap[*lease]{less: byDue, moved: func(ls *lease, i int) { ls.heapIndex = i }}
}
