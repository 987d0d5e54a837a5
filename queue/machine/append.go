package machine

import (
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/internal/jobsize"
	"github.com/penstock/penstock/queue/ruleset"
)

type appendingJob struct {
	job         queue.Job
	lane        queue.LaneDigest
	fingerprint [8]byte
	record      []byte
	answer      *queue.Appended
	// the caller can put the job on the overflow
	offered bool
	// The takes that the job asks of rules; nil if the queue had no rules when they were computed.
	rules   *queueRules
	asks    []ruleset.Ask
	askKeys []queue.LaneDigest // their digests
	asksErr error
}

// Appending is a list of jobs to append. They are checked and packed without the machine.
type Appending struct {
	Answers    []queue.Appended // one per job, in the same order
	open       []*appendingJob
	waiting    []*appendingJob // decided by the last Append, with answers that wait for a commit
	rulesNoted bool
}

// Again reopens the jobs whose commit failed, so that they are decided again.
func (a *Appending) Again() { a.open, a.waiting = append(a.waiting, a.open...), nil }

// Fail answers err for all jobs that have no answer yet or whose commit failed.
func (a *Appending) Fail(err error) {
	a.Again()
	for _, it := range a.open {
		*it.answer = queue.Appended{Outcome: queue.Failed, ID: it.job.ID, Err: err}
	}
	a.open = nil
}

// NewAppending checks and packs jobs. offered says that the caller can put them on the overflow.
func NewAppending(jobs []queue.Job, offered bool) *Appending {
	a := &Appending{Answers: make([]queue.Appended, len(jobs))}
	a.open = prepare(jobs, a.Answers, offered)
	return a
}

// Append decides jobs until all are decided or the current commit is ripe. It returns the commit that the answers so
// far wait for; call it until done. Expired jobs end before the first job is decided.
func (m *Machine) Append(now leaky.Instant, a *Appending) (wait uint64, done bool) {
	if len(a.open) > 0 {
		m.expire(now)
	}
	a.waiting = a.waiting[:0]
	for len(a.open) > 0 && !m.Ripe() {
		q := m.queues[a.open[0].job.Queue]
		before := q.cameIn()
		for name := a.open[0].job.Queue; len(a.open) > 0 && a.open[0].job.Queue == name && !m.Ripe(); {
			it := a.open[0]
			if own := m.admit(it, now); own != 0 {
				wait, a.waiting = max(wait, own), append(a.waiting, it)
			}
			a.open = a.open[1:]
		}
		// Not earlier: all ids of a call must be compared with the same remembered jobs.
		if q.cameIn() > before {
			m.makeRoom(q, now)
		}
	}
	if len(a.open) > 0 {
		return m.wait(), false
	}
	return wait, true
}

// cameIn returns how many jobs the queue has accepted or deferred; 0 if q is nil.
func (q *queueState) cameIn() int64 {
	if q == nil {
		return 0
	}
	return q.counters.Appended + q.counters.SetAside
}

// prepare validates and packs jobs.
func prepare(jobs []queue.Job, answers []queue.Appended, offered bool) []*appendingJob {
	open := make([]*appendingJob, 0, len(jobs))
	items := make([]appendingJob, len(jobs))
	for i := range jobs {
		it := &items[i]
		it.job, it.answer, it.offered = jobs[i], &answers[i], offered
		it.job.Normalize()
		if err := it.job.Validate(); err != nil {
			answers[i] = queue.Appended{Outcome: queue.Invalid, ID: it.job.ID, Err: err}
			continue
		}
		it.record = jobrecord.Pack(&it.job)
		it.fingerprint = [8]byte(it.record[jobrecord.FingerprintAt:])
		it.lane = laneDigest(&it.job, it.record)
		open = append(open, it)
	}
	return queueByQueue(open)
}

// queueByQueue groups jobs by queue, in order of first appearance. Siblings compete for the same parent, so the order
// of decisions must not depend on how the caller interleaved them.
func queueByQueue(open []*appendingJob) []*appendingJob {
	first := map[string]int{}
	for i, it := range open {
		if i > 0 && it.job.Queue == open[0].job.Queue && len(first) == 1 {
			continue // the usual case
		}
		if _, known := first[it.job.Queue]; !known {
			first[it.job.Queue] = len(first)
		}
	}
	if len(first) > 1 {
		slices.SortStableFunc(open, func(a, b *appendingJob) int { return first[a.job.Queue] - first[b.job.Queue] })
	}
	return open
}

// admit decides about a job and returns the commit that its answer waits for.
func (m *Machine) admit(it *appendingJob, now leaky.Instant) (wait uint64) {
	*it.answer = queue.Appended{ID: it.job.ID}
	q := m.queues[it.job.Queue]
	if q == nil {
		it.answer.Outcome = queue.UnknownQueue
		return m.unlessDurable(m.deletedBy)
	}
	wait = m.admitTo(q, it, now)
	q.countOutcome(it.answer.Outcome)
	return wait
}

// admitTo is admit for an existing queue. A refusal waits for nothing, unless the queue already knows the id.
func (m *Machine) admitTo(q *queueState, it *appendingJob, now leaky.Instant) (wait uint64) {
	if wait, found := m.answerKnown(it, q, now); found { // invariant 7
		return wait
	}
	if at := instantOf(it.job.ExpiresAt); at != 0 && at <= m.wall(now) {
		it.answer.Outcome = queue.Lapsed
		return 0
	}
	if it.job.Batch != "" && !m.batchFits(q, it.job.Batch, now) {
		it.job.Batch, it.record = "", jobrecord.WithBatch(it.record, "")
	}
	if err := q.resolveCosts(it); err != nil {
		it.answer.Outcome, it.answer.Err = queue.Invalid, err
		return 0
	}
	ln, most := q.lane(it.job.Lane, it.lane), m.byteLimit(q)
	if it.tooLarge(most, false) || it.refusedBySelf(q, ln, now) {
		return 0
	}
	var rc *ruleCharges
	qr, outcome := m.rulesOf(q), m.appendOutcome(q, it, most, now) // invariant 1
	if qr != nil {
		said, invalid := m.askRules(it, qr, now)
		if invalid != nil {
			it.answer.Outcome, it.answer.Err = queue.Invalid, invalid
			return 0
		}
		rc, it.answer.Rules = said, said.answers
	}
	if instead, refused := m.limitedByRules(it, q, qr, rc, now); refused {
		outcome = instead
	}
	switch {
	case outcome == queue.LimitReached:
		it.answer.Outcome = outcome
	case outcome == queue.Full:
		it.answer.Outcome = outcome
		m.answerFull(it, q, most, now)
	case outcome == queue.OverflowFull:
		it.answer.Outcome, it.answer.RetryAfter = outcome, q.retryAfter(1, now)
	case m.full() != nil:
		it.answer.Outcome, it.answer.Err = queue.Failed, m.full()
	case m.keptForOthers(q, it.bytes()) != nil:
		it.answer.Outcome, it.answer.Err = queue.Failed, m.keptForOthers(q, it.bytes())
	case it.wouldExpire(q, ln, outcome, now):
	case outcome == queue.SetAside:
		m.deferJob(it, q, rc, now)
		return m.wait()
	default:
		q.lapsePromises(it.bytes(), most, now)
		m.admitNew(it, ln, rc, now)
		return m.wait()
	}
	return 0
}

// answerKnown answers for a job that the queue already knows. The answer waits for the commit that it describes.
func (m *Machine) answerKnown(it *appendingJob, q *queueState, now leaky.Instant) (wait uint64, found bool) {
	if j := q.jobs[it.job.ID]; j != nil {
		it.answerDuplicate(j.fingerprint, j.stateToBe())
		if it.answer.State == queue.Waiting {
			it.answer.Position = int64(j.lane.waiting.search(j.turn)) + m.arrivingBefore(j) + 1
		}
		return m.waitsForJob(j), true
	}
	if d := q.endedJobs.find(it.job.ID, q.spec.Retention, now); d != nil {
		it.answerDuplicate(d.fingerprint, d.state)
		return m.waitsForEnded(d), true
	}
	if number, d := q.deferral(it.job.ID, now); d != nil {
		return m.answerDeferred(it, q, number, d, now), true
	}
	return 0, false
}

// answerDuplicate answers duplicate or conflict for a job that the queue already has.
func (it *appendingJob) answerDuplicate(print [8]byte, s queue.State) {
	if print != it.fingerprint {
		it.answer.Outcome = queue.Conflict
		return
	}
	it.answer.Outcome, it.answer.State = queue.Duplicate, s
}

// admitNew gives a job its place and its turn.
func (m *Machine) admitNew(it *appendingJob, ln *lane, rc *ruleCharges, now leaky.Instant) {
	q := ln.queue
	m.store.seq++
	j := &job{
		id: strings.Clone(it.job.ID), lane: ln, seq: m.store.seq, appended: now,
		fingerprint: it.fingerprint, size: uint32(len(it.record)), cost: uint16(it.job.Cost),
	}
	j.setCosts(it.record)
	o := q.outlookOfNew(ln, turnOf(q.turn, it.job.Priority), it.job.Cost, it.job.Priority, notPlain(&it.job))
	eta := q.etaOfNew(o, scheduledUntil(&it.job, m.wall(now)), now)
	m.reservePlace(j, &it.job, now)
	if it.job.Batch != "" {
		m.holdBatch(j, m.joinBatch(q, it.job.Batch, now, now), scheduledUntil(&it.job, m.wall(now)))
	}
	m.chargeRules(rc, now)
	m.touch(q)
	q.counters.Appended++
	m.current.putJob(j, it.record)
	m.arrive(arrival{job: j}, it.record)
	*it.answer = queue.Appended{
		Outcome: queue.Accepted, ID: j.id, State: j.stateToBe(), ETA: eta.ToWall(m.ahead()), Rules: rc.said(),
	}
	if j.lease == nil {
		it.answer.Position = o.place + 1
	}
}

func (it *appendingJob) bytes() int64 { return jobsize.Of(it.job.ID, len(it.record)) }

// reservePlace gives a job its place and its turn, and raises the ceilings so that it may leave soon.
func (m *Machine) reservePlace(j *job, in *queue.Job, now leaky.Instant) {
	q, cost := j.lane.queue, int64(j.cost)
	j.turn = turnOf(q.turn, in.Priority)
	q.turn += cost
	q.noteCost(cost)
	q.plain = q.plain && !notPlain(in)
	q.addJob(j)
	q.setExpiry(j, instantOf(in.ExpiresAt))
	q.addIncoming(j, scheduledUntil(in, m.wall(now)))
	m.raiseWithAppend(q, now, j.bill())
}

// arriving reports whether the job's commit is not durable yet: it has a place and a turn, but is in no lane.
func (j *job) arriving() bool { return j.state == queue.StateNone && j.lane.queue.jobs[j.id] == j }

// stateToBe returns the job's state; for an arriving job, the state that it will have.
func (j *job) stateToBe() queue.State {
	switch {
	case j.state != queue.StateNone:
		return j.state
	case j.lease != nil:
		return queue.Scheduled
	}
	return queue.Waiting
}

// incoming is what a queue has reserved for arriving jobs. Decisions count the jobs that will wait as waiting.
type incoming struct {
	all     int64 // places
	waiting int64 // jobs that will wait
	cost    int64
	lanes   int           // lanes that have such jobs and no waiting jobs yet
	later   *heap[*lease] // jobs that will be scheduled
}

func (c *incoming) scheduled() int64 {
	if c.later == nil {
		return 0
	}
	return int64(c.later.len())
}

// addIncoming reserves a place in the queue and in the job's lane. dueAt is 0 unless the job is scheduled.
func (q *queueState) addIncoming(j *job, dueAt leaky.Instant) {
	c := &q.incoming
	c.all++
	q.addToLane(j)
	if dueAt != 0 {
		j.ensureLease().due = dueAt
		if c.later == nil {
			later := newLater()
			c.later = &later
		}
		c.later.push(j.lease)
		return
	}
	if j.lane.empty() {
		q.countIncomingLane(j.lane, 1)
	}
	c.waiting++
	c.cost += int64(j.cost)
	*j.lane.incomingOf(j.priority())++
	if q.group != nil {
		q.group.addIncoming(q, 1)
	}
}

func (q *queueState) removeIncoming(j *job) {
	c := &q.incoming
	c.all--
	if j.lease != nil {
		c.later.remove(j.lease.heapIndex)
		return
	}
	c.waiting--
	c.cost -= int64(j.cost)
	if q.group != nil {
		q.group.addIncoming(q, -1)
	}
	*j.lane.incomingOf(j.priority())--
	if j.lane.empty() {
		q.countIncomingLane(j.lane, -1)
	}
}

func (ln *lane) empty() bool { return ln.waiting.len() == 0 && ln.incomingTotal() == 0 }
