package machine

import (
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// queueState is one queue.
type queueState struct {
	number   uint64 // its key in the file; a younger queue has a greater one
	spec     queue.Spec
	revision int64
	live     bool // it is not deleted
	touched  bool // the present commit has its record
	failed   bool // and its failures

	agendaEntry // its own place on the agenda
	timer
	member member // its place in its group
	group  *group // nil if it has neither parent nor children

	paces   // its rate and limits
	ceiling ceilingState
	costHistory
	pause     pause
	receiver  receiverState
	lastFence uint64 // of the latest grant

	queuedJobs
	laneSet
	expiryIndex
	overflow    overflowState
	importing   importState
	lastRetryAt leaky.Instant // what the last refused caller was told

	stats
	ruleCache
	pullState
}

// queuedJobs are the jobs of a queue.
type queuedJobs struct {
	jobs      map[string]*job // that hold a place
	scheduled sorted[*lease]
	held      sorted[*lease] // by the instant from which on they are held
	endedJobs endedJobs
	incoming  incoming                 // arriving jobs
	counts    [queue.Expired + 1]int64 // of the states that take a place
	bytes     int64                    // of the jobs in those states and of incoming ones
	turn      int64                    // of the next job
}

// costHistory is what is known of the costs of all jobs that ever came in.
type costHistory struct {
	maxCost       int64
	childMaxCost  int64         // the greatest cost of its children's jobs
	plain         bool          // no job with a lane, a priority or a not-before ever came in
	openedAt      leaky.Instant // when it was loaded; 0 if the queue was made since
	maxCostAtOpen int64         // maxCost as of then
}

// stats are what a queue counts.
type stats struct {
	counters queue.Counters // with the commits that count
	unsaved  queue.Counters // of what needs no commit; they go along with the next
	outflow  meter
	failures []queue.LastError // newest first
}

const maxFailures = 10

// firstTurn is the first turn: high enough that subtracting any priority leaves it positive.
const (
	priorityShift = 49 // one priority is worth 2^49 of turn
	firstTurn     = queue.MaxPriority << priorityShift
)

func newQueueState(number uint64, spec queue.Spec) *queueState {
	q := &queueState{
		number: number,
		queuedJobs: queuedJobs{
			jobs: map[string]*job{}, scheduled: sorted[*lease]{less: byDue}, held: sorted[*lease]{less: byDue},
			endedJobs: endedJobs{byID: map[string]*endedJob{}}, turn: firstTurn,
		},
		laneSet:     laneSet{laneOrder: sorted[*lane]{less: byDigest}},
		expiryIndex: expiryIndex{deadlines: sorted[deadline]{less: byDeadline}, expiringIndex: -1},
		costHistory: costHistory{maxCost: 1, plain: true},
		timer:       timer{timerIndex: -1},
	}
	q.agendaEntry = agendaEntry{queue: q, agendaIndex: -1}
	q.defaultLane = lane{queue: q, heapIndex: -1}
	q.setSpec(spec)
	return q
}

func (q *queueState) setSpec(s queue.Spec) {
	q.spec = s
	q.pacer = s.Pacer(queue.Horizon)
}

// size is what capacity bounds, arriving jobs included.
func (q *queueState) size() int64 {
	c := &q.counts
	return c[queue.Waiting] + c[queue.Scheduled] + c[queue.Leased] + c[queue.Held] + q.incoming.all
}

// record is what is to be kept of the queue.
func (q *queueState) record() queueRecord {
	return queueRecord{
		counters: q.counters, receiver: q.receiver, ceiling: q.ceiling.next, maxCost: q.maxCost,
		childMaxCost: q.childMaxCost, turn: q.turn, tickets: q.overflow.lastTicket, progress: q.overflow.progress,
	}
}

// removeJob takes a job out of the queue and its lane.
func (m *Machine) removeJob(j *job, now leaky.Instant) {
	q := j.lane.queue
	m.removeFromLane(j, now)
	delete(q.jobs, j.id)
	if j.marks&expires != 0 {
		delete(q.expiries, j.seq)
	}
	if j.marks&readmitted != 0 {
		q.overflow.readmitted--
		q.overflow.readmittedBytes -= j.bytes()
	}
}

// setExpiry notes when a job expires; 0 is never.
func (q *queueState) setExpiry(j *job, at leaky.Instant) {
	if at == 0 {
		return
	}
	j.marks |= expires
	if q.expiries == nil {
		q.expiries = map[uint64]leaky.Instant{}
	}
	q.expiries[j.seq] = at
}

// expiresAt is zero if the job never expires.
func (j *job) expiresAt() time.Time {
	if j.marks&expires == 0 {
		return time.Time{}
	}
	return j.lane.queue.expiries[j.seq].Time()
}
