package machine

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// queueState is one queue.
type queueState struct {
	number     uint64 // its key in the file; a younger queue has a greater number
	name       string
	spec       *queue.Spec // without name and target; shared with other queues, so immutable
	target     string      // Spec.Deliver
	revision   int64
	live       bool  // not deleted
	touched    bool  // the current commit has its record
	failed     bool  // the current commit has its failures
	plain      bool  // it never received a job with a lane, a priority or a not-before
	timerIndex int32 // index among the timers; -1 if not there

	env         *Environment  // the machine's
	agendaEntry               // its own entry for the agenda
	timerAt     leaky.Instant // when its timer is due
	member      *member       // its place in its group
	group       *group        // nil if it has neither parent nor children

	paces   // its rate and limits
	ceiling ceilingState
	costHistory
	pause     pause
	receiver  receiverState
	lastFence uint64 // of the latest grant

	queuedJobs
	laneSet
	expiryIndex
	overflow  *overflowState // noOverflow until it has its own: see ownOverflow
	importing *importState   // noImport until the first import
	batches   *batchSet      // nil until its first batch
	promised  leaky.Instant  // the slot promised to the next refused caller; see retryAfter

	stats
	ruleCache
	pullState
}

// queuedJobs are the jobs of a queue.
type queuedJobs struct {
	jobs      map[string]*job // jobs that hold a place; nil if there were none for long
	scheduled *sorted[*lease] // by when they are due
	held      *sorted[*lease] // by the start of their hold
	endedJobs endedJobs
	incoming  incoming                 // arriving jobs
	counts    [queue.Expired + 1]int64 // of the states that take a place
	bytes     int64                    // of the jobs in these states and of incoming jobs
	turn      int64                    // of the next job
}

// costHistory summarizes the costs of all jobs ever appended.
type costHistory struct {
	maxCost      int32
	childMaxCost int32          // the greatest cost of its children's jobs
	learned      *[]learnedCost // in units whose estimates learn; nil until the first actual cost
	earlier      *earlier       // nil if this process created the queue
}

// earlier is what an earlier process, or another store, may have granted.
type earlier struct {
	until   leaky.Instant
	maxCost int64
}

// stats are the counters of a queue.
type stats struct {
	counters queue.Counters  // kept by the commits that count
	unsaved  *queue.Counters // counts without a commit, written with the next one; nil if none
	outflow  meter
	failures []queue.LastError // newest first
}

// count returns the counters for counts without a commit.
func (s *stats) count() *queue.Counters {
	if s.unsaved == nil {
		s.unsaved = &queue.Counters{}
	}
	return s.unsaved
}

func (s *stats) countOutcome(o queue.AppendOutcome) {
	if o.Counter() != "" {
		s.count().Count(o)
	}
}

func (s *stats) allCounters() queue.Counters {
	if s.unsaved == nil {
		return s.counters
	}
	all := s.counters
	all.Add(s.unsaved.Values())
	return all
}

const maxFailures = 10

// firstTurn is the first turn: high enough that subtracting any priority leaves it positive.
const (
	priorityShift = 49 // one priority is worth 2^49 of turn
	firstTurn     = queue.MaxPriority << priorityShift
)

func (m *Machine) newQueueState(number uint64, spec queue.Spec) *queueState {
	q := &queueState{
		number: number, env: &m.Environment,
		queuedJobs:  queuedJobs{turn: firstTurn},
		expiryIndex: expiryIndex{expiringIndex: -1},
		costHistory: costHistory{maxCost: 1}, plain: true,
		overflow: &noOverflow, importing: &noImport,
		timerIndex: -1,
	}
	q.agendaEntry = agendaEntry{queue: q, agendaIndex: -1}
	m.setSpec(q, spec)
	return q
}

func (m *Machine) setSpec(q *queueState, s queue.Spec) {
	q.name, q.target, q.spec = s.Name, string(s.Deliver), m.recentSpecs.intern(s)
	q.pacer = s.Pacer(queue.Horizon)
}

// fullSpec returns the spec with the queue's own name and target.
func (q *queueState) fullSpec() queue.Spec {
	s := *q.spec
	if s.Name = q.name; q.target != "" {
		s.Deliver = json.RawMessage(q.target)
	}
	return s
}

// recentSpecs are some of the specs that were set last. In a large store most queues have equal specs, apart from their
// names and targets, and share one.
type recentSpecs struct {
	specs  [16]*queue.Spec
	oldest int
}

// intern returns an equal spec without name and target, which other queues may share.
func (r *recentSpecs) intern(s queue.Spec) *queue.Spec {
	s.Name, s.Deliver = "", nil
	for _, known := range r.specs {
		if known != nil && reflect.DeepEqual(known, &s) {
			return known
		}
	}
	r.specs[r.oldest] = &s
	r.oldest = (r.oldest + 1) % len(r.specs)
	return &s
}

// size returns what capacity limits, arriving jobs included.
func (q *queueState) size() int64 {
	c := &q.counts
	return c[queue.Waiting] + c[queue.Scheduled] + c[queue.Leased] + c[queue.Held] + q.incoming.all
}

func (q *queueState) record() queueRecord {
	return queueRecord{
		counters: q.counters, receiver: q.receiver, ceiling: q.ceiling.next, maxCost: int64(q.maxCost),
		childMaxCost: int64(q.childMaxCost), turn: q.turn, tickets: q.overflow.lastTicket, progress: q.overflow.progress,
		learned: queue.PackLearned(q.learnedCosts()),
	}
}

func (q *queueState) addJob(j *job) {
	if q.jobs == nil {
		q.jobs = map[string]*job{}
	}
	q.jobs[j.id] = j
}

// freeEmpty frees the empty maps of an idle queue: Go's maps never shrink.
func (q *queueState) freeEmpty(now leaky.Instant) {
	if now.Sub(q.outflow.start) < 2*meterWindow {
		return
	}
	if len(q.jobs) == 0 {
		q.jobs = nil
	}
	if len(q.endedJobs.byID)+q.endedJobs.others.len() == 0 {
		q.endedJobs = endedJobs{}
	}
	if ln := q.defaultLane; ln != nil && ln.size == 0 && ln.heap == nil && ln.neededUntil() <= now {
		q.defaultLane = nil
	}
}

// removeJob removes a job that ends in a state.
func (m *Machine) removeJob(j *job, s queue.State, now leaky.Instant) {
	q := j.lane.queue
	m.removeFromLane(j, now)
	delete(q.jobs, j.id)
	if j.marks&expires != 0 {
		delete(q.expiries, j.seq)
	}
	if q.batches != nil {
		if b := q.batches.ofJob[j.seq]; b != nil {
			delete(q.batches.ofJob, j.seq)
			m.endInBatch(b, j.id, s, now)
		}
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

// expiresAt returns when the job expires, or zero.
func (j *job) expiresAt() time.Time {
	if j.marks&expires == 0 {
		return time.Time{}
	}
	return j.lane.queue.expiries[j.seq].Time()
}
