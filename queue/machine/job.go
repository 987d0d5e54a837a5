package machine

import (
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/internal/jobsize"
)

// job is a job that holds a place. There may be millions, so what only granted jobs need stands in the lease.
type job struct {
	id          string
	lane        *lane
	seq         uint64 // the key of its record
	turn        int64  // its place in the order: smaller goes first; the priority is subtracted already
	appended    leaky.Instant
	fingerprint [8]byte
	lease       *lease
	size        uint32 // of its record
	cost        uint16
	state       queue.State // StateNone while it arrives
	marks       marks
}

// marks are flags of a job.
type marks uint8

const (
	readmitted marks = 1 << iota // it came back from the overflow
	expires                      // at an instant that queueState.expiries has
)

// lease is what only a job has that was granted, scheduled or held at least once: its present lease, or what is
// left of the last.
type lease struct {
	job       *job
	attempts  int
	fence     fence         // of this lease, or of the last one
	settled   fence         // of the last lease that was settled, with
	verdict   queue.Verdict // and
	result    queue.State
	due       leaky.Instant // leased: the departure; scheduled: until when; held: since when
	deadline  leaky.Instant // of the lease
	commit    uint64        // that changed it last; 0 if it was loaded
	granted   uint64        // the commit that the answer waited for which granted it
	heapIndex int           // in Machine.leases or incoming.later; -1 in neither
	drainer   string        // who has the job, or had it last
	reason    string
	timeline  []byte // as stored; shared, never written to
	onFile    bool   // the file has a record of it
	persisted bool   // the file says that the job is leased
	inFlight  bool   // it counts against its lane's max_in_flight
}

// priority is recovered from the turn.
func (j *job) priority() int { return priorityOf(j.turn) }

func priorityOf(turn int64) int { return int(queue.MaxPriority - turn>>priorityShift) }

// turnBase is the turn without the priority.
func (j *job) turnBase() int64 { return firstTurn | j.turn&(1<<priorityShift-1) }

func (j *job) ensureLease() *lease {
	if j.lease == nil {
		j.lease = &lease{job: j, heapIndex: -1}
	}
	return j.lease
}

// attempt describes the attempt that ends now.
func (ls *lease) attempt(o queue.AttemptOutcome, answer string, now leaky.Instant) queue.Attempt {
	return queue.Attempt{At: ls.due.Time(), EndedAt: now.Time(), Drainer: ls.drainer, Outcome: o, Answer: answer}
}

// byDue orders scheduled and held jobs.
func byDue(a, b *lease) bool {
	if a.due != b.due {
		return a.due < b.due
	}
	return a.job.id < b.job.id
}

func newLater() heap[*lease] {
	return heap[*lease]{
		key: func(ls *lease) heapKey { return heapKey{at: int64(ls.due)} }, less: byDue,
		moved: func(ls *lease, i int) { ls.heapIndex = i },
	}
}

// instantOf converts a time; the zero time is 0.
func instantOf(at time.Time) leaky.Instant {
	if at.IsZero() {
		return 0
	}
	return leaky.Instant(at.UnixMicro())
}

// notPlain reports whether a job has a lane, a priority or a not-before.
func notPlain(j *queue.Job) bool { return j.Lane != "" || j.Priority != 0 || !j.NotBefore.IsZero() }

// turnOf applies a priority to a turn.
func turnOf(turn int64, priority int) int64 { return turn - int64(priority)<<priorityShift }

// laneDigest returns the digest of a job's lane from its record.
func laneDigest(j *queue.Job, record []byte) (d queue.LaneDigest) {
	if j.Lane != "" {
		h, _ := jobrecord.UnpackHead(record) // packed just now, so it can be read
		d = h.Lane
	}
	return d
}

// bytes is what a job counts against max_bytes.
func (j *job) bytes() int64 { return jobsize.Of(j.id, int(j.size)) }

// fence tells one lease of a job from another. The epoch is drawn for each Machine, so that no fence of an earlier
// process, or of a restored copy of its store, is ever valid.
type fence struct {
	epoch, number uint64
}

func (f fence) text() queue.Fence { return queue.Fence(formatPair(f.epoch, f.number, 16)) }

// parseFence reads what text wrote. Anything else gives the zero fence, which no lease has.
func parseFence(s queue.Fence) fence {
	epoch, number := parsePair(string(s), 16)
	return fence{epoch, number}
}

// formatPair writes two numbers with a dot between them.
func formatPair(a, b uint64, base int) string {
	text := strconv.AppendUint(make([]byte, 0, 33), a, base)
	return string(strconv.AppendUint(append(text, '.'), b, base))
}

// parsePair reads what formatPair wrote in that very form. Anything else gives 0, 0.
func parsePair(s string, base int) (a, b uint64) {
	first, second, _ := strings.Cut(s, ".")
	a, err1 := strconv.ParseUint(first, base, 64)
	b, err2 := strconv.ParseUint(second, base, 64)
	if err1 != nil || err2 != nil || formatPair(a, b, base) != s {
		return 0, 0
	}
	return a, b
}
