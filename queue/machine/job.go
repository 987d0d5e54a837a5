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

// job is a job that holds a place. There may be millions, so the lease has what only granted jobs need.
type job struct {
	id          string
	lane        *lane
	seq         uint64 // the key of its record
	turn        int64  // its place in the order, smallest first; the priority is subtracted already
	appended    leaky.Instant
	fingerprint [8]byte
	lease       *lease
	size        uint32 // of its record
	cost        uint16
	costs       *string     // in other units, as packed in its record; nil for none
	state       queue.State // StateNone while it arrives
	marks       marks
}

type marks uint8

const (
	readmitted marks = 1 << iota // it came back from the overflow
	expires                      // it expires, as queueState.expiries says
)

// lease is what only jobs have that were granted, scheduled or held at least once: the current lease, or what is left
// of the last.
type lease struct {
	job       *job
	attempts  int
	fence     fence         // of this lease, or of the last
	settled   fence         // of the last settled lease
	verdict   queue.Verdict // of the last settlement
	result    queue.State
	due       leaky.Instant // leased: the departure; scheduled: until when; held: since when
	deadline  leaky.Instant // of the lease
	commit    uint64        // the last commit that changed it; 0 if it was loaded
	granted   uint64        // the commit that the answer with the grant waited for
	heapIndex int           // in Machine.leases or incoming.later; -1 if in neither
	drainer   string        // the drainer that has the job, or had it last
	reason    string
	timeline  []byte // as stored; shared, never written to
	onFile    bool   // the file has a record of it
	persisted bool   // the file says that the job is leased
	inFlight  bool   // it counts against its lane's max_in_flight
}

func (j *job) priority() int { return priorityOf(j.turn) }

func priorityOf(turn int64) int { return int(queue.MaxPriority - turn>>priorityShift) }

// turnBase returns the turn without the priority.
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

func (j *job) bytes() int64 { return jobsize.Of(j.id, int(j.size)) }

// fence distinguishes the leases of a job. The epoch is random for each Machine, so that no fence of an earlier
// process, or of a restored copy of its store, is ever valid.
type fence struct {
	epoch, number uint64
}

func (f fence) text() queue.Fence { return queue.Fence(formatPair(f.epoch, f.number, 16)) }

// parseFence parses what text wrote. Anything else gives the zero fence, which no lease has.
func parseFence(s queue.Fence) fence {
	epoch, number := parsePair(string(s), 16)
	return fence{epoch, number}
}

// formatPair formats two numbers with a dot between them.
func formatPair(a, b uint64, base int) string {
	text := strconv.AppendUint(make([]byte, 0, 33), a, base)
	return string(strconv.AppendUint(append(text, '.'), b, base))
}

// parsePair parses exactly what formatPair writes. Anything else gives 0, 0.
func parsePair(s string, base int) (a, b uint64) {
	first, second, _ := strings.Cut(s, ".")
	a, err1 := strconv.ParseUint(first, base, 64)
	b, err2 := strconv.ParseUint(second, base, 64)
	if err1 != nil || err2 != nil || formatPair(a, b, base) != s {
		return 0, 0
	}
	return a, b
}

// setState moves a job to another state and keeps all counts in step.
func (m *Machine) setState(j *job, to queue.State) {
	for _, c := range []*[queue.Expired + 1]int64{&m.counts, &j.lane.queue.counts} {
		if j.state != queue.StateNone {
			c[j.state]--
		}
		if !to.Ended() {
			c[to]++
		}
	}
	if j.lease != nil {
		j.lane.trackInFlight(j.lease, to)
	}
	if idle(j.state) != idle(to) {
		m.trackDeadline(j, idle(to))
	}
	if q := j.lane.queue; q.group != nil {
		if j.state == queue.Waiting {
			q.group.addWaiting(q, -1)
		}
		if to == queue.Waiting {
			q.group.addWaiting(q, 1)
		}
	}
	j.state = to
}

// idle reports whether jobs in that state wait, for their turn or for an instant.
func idle(s queue.State) bool { return s == queue.Waiting || s == queue.Scheduled }

// putWaiting adds a job to the waiting jobs of its lane, and reports whether it is the first.
func (m *Machine) putWaiting(j *job, now leaky.Instant) (first bool) {
	q := j.lane.queue
	first = q.pushWaiting(j)
	m.setState(j, queue.Waiting)
	q.placeLane(j.lane, first, now)
	return first
}

// leaveFlight takes a leased job to a state other than waiting, and reports whether that unblocked its lane or its
// queue.
func (m *Machine) leaveFlight(j *job, to queue.State, now leaky.Instant) (freed bool) {
	q := j.lane.queue
	m.holdLane(j.lane)
	crowded := q.atMaxInFlight()
	m.setState(j, to)
	return q.unblock(j.lane, now) || crowded && !q.atMaxInFlight()
}

// holdLane makes the grants of a lane of an ordered queue wait for the current commit, in which a lease of one of its
// jobs ends. If that were undone, two jobs would be in flight. A lane that is forgotten meanwhile needs no hold: its
// next job comes with the same commit or a later one.
func (m *Machine) holdLane(ln *lane) {
	if q := ln.queue; q.spec.Ordered {
		m.holdGrants(heldGrants{q, ln})
	}
}

// enterLane makes a job visible once its commit is durable.
func (m *Machine) enterLane(a *arrival, now leaky.Instant) {
	j, q := a.job, a.job.lane.queue
	if !q.live || q.jobs[j.id] != j { // the job or its queue has ended before
		return
	}
	if a.imported && a.state == queue.Held {
		q.incoming.all--
		j.lease = a.lease
		m.setState(j, queue.Held)
		pushTo(&q.held, byDue, j.lease)
		return
	}
	if a.holdsLane && j.lease != nil {
		j.lease.inFlight = true
		j.lane.inFlight++
	}
	q.removeIncoming(j)
	first := true
	if j.lease == nil {
		first = m.putWaiting(j, now)
	} else {
		m.putScheduled(j)
	}
	m.wakeForExpiry(j, now)
	switch ls := a.lease; {
	case ls != nil && j.lease != nil:
		j.lease.attempts, j.lease.reason, j.lease.timeline, j.lease.onFile = ls.attempts, ls.reason, ls.timeline, true
	case ls != nil:
		j.lease = ls
	}
	if first { // else there was a job before, and the queue's instant stands
		m.armAndWake(q, now)
	}
}
