package boltq

import (
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// queueState is one queue in memory. Everything is guarded by the engine's mutex.
type queueState struct {
	agendaEntry        // what it is on the agenda by itself
	paces              // what lets jobs out
	member      member // in its group
	group       *group // of which it is a member; nil if there is none
	number      uint64 // its key in the file, and the order queues were made in
	spec        queue.Spec
	revision    int64
	pause       pause
	receiver    receiverState
	// laneStopsUntil is until when a stop of one of its lanes may matter.
	laneStopsUntil leaky.Instant
	importing      importState

	// busy is the call that is creating, changing or deleting the queue: until
	// it is done nothing is granted and nobody else decides about the queue.
	busy *call
	live bool // false before its creation is on disk, and after its deletion
	gone bool // deleted

	jobs        map[string]*job
	defaultLane lane                       // without a key
	lanes       map[queue.LaneDigest]*lane // the others
	laneOrder   sorted[*lane]              // of those, by digest
	// lanesPeak is how many there were since the map was made.
	lanesPeak    int
	lanesWaiting int        // lanes in which jobs wait
	laneTurns    *laneTurns // of the lanes; nil in a queue that never had any
	scheduled    sorted[*lease]
	held         sorted[*lease] // may have been sent; by since when
	endedJobs    endedJobs
	overflow     overflowState
	expiries     map[uint64]leaky.Instant // of the jobs that expire, by seq
	deadlines    sorted[deadline]         // of those of them that wait or are scheduled
	incoming     incoming                 // appends that are not on disk yet
	counts       [queue.Expired + 1]int64 // of the states that hold a place
	bytes        int64                    // of the jobs in those, and of those that are coming

	lastFence uint64 // of the latest grant
	// ceiling is what is on file; pledged is what the commits under way will make of it.
	ceiling   ceilings
	pledged   ceilings
	pledgedBy *call // whose change is the latest pledge

	turn          int64
	maxCost       int64
	childMaxCost  int64         // the same of its children's jobs, since it was made
	plain         bool          // no job with a lane, a priority or a not-before came in
	openedAt      leaky.Instant // when this process opened a file that has the queue; 0 if it made it
	maxCostAtOpen int64         // maxCost then
	lastRetryAt   leaky.Instant
	saved         queue.Counters // on disk
	unsaved       queue.Counters // counted since; they go with the next commit

	outflow  meter
	failures []queue.LastError // newest first

	timerAt       leaky.Instant // when the first scheduled job is due
	timerIndex    int           // its place among those; -1 if nothing is scheduled
	firstDeadline leaky.Instant // when the first of its deadlines is
	expiringIndex int           // its place among those queues; -1 if it has none

	// rules are the rules that its jobs are asked by, as of the change of rules that is counted so; nil if it has none.
	rules        *queueRules
	rulesVersion uint64

	pullersAskAt leaky.Instant // when those who pull from it will ask
	lastAsked    leaky.Instant // when they last did, 0 if nobody has since the file was opened
	pullsNow     bool          // it is a pull queue, or about to be one, or no more
}

const maxFailures = 10

// firstTurn is where turns begin: as far up that none is below 0, whatever its priority.
const (
	priorityShift = 49 // a priority is worth 2^49 of turn
	firstTurn     = queue.MaxPriority << priorityShift
)

func newQueueState(number uint64, spec queue.Spec) *queueState {
	q := &queueState{
		number: number, jobs: map[string]*job{}, scheduled: sorted[*lease]{less: byDue}, held: sorted[*lease]{less: byDue}, laneOrder: sorted[*lane]{less: byDigest},
		deadlines: sorted[deadline]{less: byDeadline},
		turn:      firstTurn, maxCost: 1, plain: true, timerIndex: -1, expiringIndex: -1,
	}
	q.agendaEntry = agendaEntry{queue: q, agendaIndex: -1}
	q.defaultLane = lane{queue: q, heapIndex: -1}
	q.endedJobs.byID = map[string]*endedJob{}
	q.setSpec(spec)
	return q
}

func (q *queueState) setSpec(s queue.Spec) {
	q.spec, q.pullsNow = s, s.Pull
	q.pacer = s.Pacer(queue.Horizon)
}

// size is what capacity counts, with the places reserved.
func (q *queueState) size() int64 {
	return q.counts[queue.Waiting] + q.counts[queue.Scheduled] + q.counts[queue.Leased] + q.counts[queue.Held] + q.incoming.all
}

// record is what the file should say of the queue, all in all.
func (q *queueState) record(c queue.Counters, ceiling ceilings, w overflowProgress, r receiverState) queueRecord {
	return queueRecord{counters: c, receiver: r, ceiling: ceiling, maxCost: q.maxCost, childMaxCost: q.childMaxCost, turn: q.turn, tickets: q.overflow.lastTicket, progress: w}
}

// removeJob takes a job out of those that hold a place.
func (e *Engine) removeJob(j *job, now leaky.Instant) {
	q := j.lane.queue
	e.removeFromLane(j, now)
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

// expiresAt is zero if the job never does.
func (j *job) expiresAt() time.Time {
	if j.marks&expires == 0 {
		return time.Time{}
	}
	return j.lane.queue.expiries[j.seq].Time()
}

func (q *queueState) noteFailure(f queue.LastError) {
	q.failures = append([]queue.LastError{f}, q.failures...)
	if len(q.failures) > maxFailures {
		q.failures = q.failures[:maxFailures]
	}
}
