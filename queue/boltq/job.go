package boltq

import (
	"time"

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

// attempt is the one that ends now.
func (ls *lease) attempt(o queue.AttemptOutcome, answer string, now leaky.Instant) queue.Attempt {
	return queue.Attempt{At: ls.due.Time(), EndedAt: now.Time(), Drainer: ls.drainer, Outcome: o, Answer: answer}
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

// instantOf is an instant of a job; 0 is none.
func instantOf(at time.Time) leaky.Instant {
	if at.IsZero() {
		return 0
	}
	return leaky.Instant(at.UnixMicro())
}

// notPlain reports whether a job is not like those of a plain queue.
func notPlain(j *queue.Job) bool { return j.Lane != "" || j.Priority != 0 || !j.NotBefore.IsZero() }

// turnOf is the turn of a job of that priority.
func turnOf(turn int64, priority int) int64 { return turn - int64(priority)<<priorityShift }

// laneDigest is that of a job's lane, as its record has it.
func laneDigest(j *queue.Job, record []byte) (d queue.LaneDigest) {
	if j.Lane != "" {
		h, _ := queue.UnpackHead(record) // which was packed just now
		d = h.Lane
	}
	return d
}

// bytes is what a job takes of max_bytes.
func (j *job) bytes() int64 { return queue.SizeOf(j.id, int(j.size)) }
