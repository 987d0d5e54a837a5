package machine

import (
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// overflowState is what a queue knows of its jobs on the overflow. Their number is counts[queue.Deferred].
type overflowState struct {
	records         deferrals
	cost            int64       // of the deferred jobs
	bytes           int64       // of the deferred jobs
	olderGeneration recordCount // jobs of the older generation
	lastTicket      uint64      // the number of the latest deferral
	readmitted      int64       // jobs that came back and hold a place
	progress        overflowProgress
	// readmittedBytes is the size of the jobs counted in readmitted. headNeeds is the size of the first job on the
	// overflow, if a Readmit found that it does not fit.
	readmittedBytes, headNeeds int64
	holder                     string // the only client that may readmit, until holderUntil
	holderUntil                leaky.Instant
	announcedAt                leaky.Instant // when room was last announced; 0 if a Readmit came since
}

// noOverflow is the read-only state of the many queues that never had a job on the overflow.
var noOverflow overflowState

// ownOverflow returns the queue's overflowState for changes.
func (q *queueState) ownOverflow() *overflowState {
	if q.overflow == &noOverflow {
		q.overflow = &overflowState{}
	}
	return q.overflow
}

// countReadmitted marks a job as readmitted and counts it.
func (q *queueState) countReadmitted(j *job) {
	j.marks |= readmitted
	o := q.ownOverflow()
	o.readmitted++
	o.readmittedBytes += j.bytes()
}

// overflowProgress is how far a queue's overflow has been taken back.
type overflowProgress struct {
	overflow        string // the overflow that the order belongs to
	order           int64
	behind          int64
	announced       leaky.Instant // when a job there was last announced; 0 is never
	givenUpTo       uint64        // deferrals up to this ticket no longer count
	olderUpTo       uint64        // deferrals up to this ticket are of the older generation
	generationSince leaky.Instant // when the current generation began
}

// recordCount is a number of deferrals, and the total cost and size of their jobs.
type recordCount struct{ n, cost, bytes int64 }

func (c recordCount) negative() recordCount { return recordCount{-c.n, -c.cost, -c.bytes} }

func (c *recordCount) plus(more recordCount) {
	c.n += more.n
	c.cost += more.cost
	c.bytes += more.bytes
}

// ticket names a deferral by the number of its queue, which is never reused, and its own number there.
type ticket struct{ queue, number uint64 }

func (t ticket) text() queue.Ticket { return queue.Ticket(formatPair(t.queue, t.number, 36)) }

// parseTicket parses what text wrote. Anything else gives the zero ticket, which no deferral has.
func parseTicket(s queue.Ticket) ticket {
	owner, number := parsePair(string(s), 36)
	return ticket{owner, number}
}

func (q *queueState) hasBacklog() bool { return q.onOverflow() > 0 }

// onOverflow returns about how many jobs are on the overflow, as recorded and as seen.
func (q *queueState) onOverflow() int64 { return q.counts[queue.Deferred] + q.overflow.progress.behind }

// deferral returns the valid deferral of an id and its number, or nil.
func (q *queueState) deferral(id string, now leaky.Instant) (uint64, *deferral) {
	n := q.overflow.records.find(id)
	if n == 0 || q.deferralLapsed(n, now) {
		return 0, nil
	}
	return n, q.overflow.records.get(n)
}

// deferralLapsed reports whether a deferral no longer counts: it was given up, or is so old that no copy of its job can
// come back.
func (q *queueState) deferralLapsed(n uint64, now leaky.Instant) bool {
	life := q.spec.Deferred.MaxAge.D() + q.spec.Retention.For.D()
	return n <= q.overflow.progress.givenUpTo || now.Sub(q.overflow.records.get(n).at) >= life
}

func (m *Machine) removeDeferral(q *queueState, n uint64) {
	if d := q.overflow.records.get(n); d != nil {
		m.uncountDeferral(q, n, d)
		q.dropDeferral(n)
	}
}

// dropDeferral removes a deferral that is not counted any more.
func (q *queueState) dropDeferral(n uint64) {
	q.overflow.records.remove(n)
	if q.batches != nil {
		delete(q.batches.ofDeferral, n)
	}
}

// counts reports whether an existing deferral n counts as deferred.
func (o *overflowState) counts(n uint64) bool {
	return n > o.progress.givenUpTo && o.records.get(n).state == stillDeferred
}

// uncountDeferral removes a deferral from the counts, and reports whether it was counted.
func (m *Machine) uncountDeferral(q *queueState, n uint64, d *deferral) (counted bool) {
	if counted = q.overflow.counts(n); counted {
		if b := q.batchOfDeferral(n); b != nil {
			q.deferInBatch(b, n, -1)
		}
		m.countDeferred(q, n, d.count().negative())
	}
	return counted
}

// countDeferred counts more deferred jobs (or fewer, if negative) at that number.
func (m *Machine) countDeferred(q *queueState, number uint64, more recordCount) {
	q.counts[queue.Deferred] += more.n
	m.counts[queue.Deferred] += more.n
	o := q.ownOverflow()
	o.cost += more.cost
	o.bytes += more.bytes
	if number <= o.progress.olderUpTo {
		o.olderGeneration.plus(more)
	}
	m.trackBacklog(q)
}

// forgetLapsed forgets up to limit deferrals that no longer count, the oldest first.
func (m *Machine) forgetLapsed(q *queueState, now leaky.Instant, limit int) {
	g := &q.overflow.records
	for ; limit > 0 && g.n > 0; limit-- {
		n := g.oldest()
		if !q.deferralLapsed(n, now) {
			return
		}
		m.dropLapsed(q, n, now)
	}
}

// dropLapsed drops a lapsed deferral. If it still counted, its job is missing.
func (m *Machine) dropLapsed(q *queueState, n uint64, now leaky.Instant) {
	d, b := q.overflow.records.get(n), q.batchOfDeferral(n)
	m.lapsedDeferrals = append(m.lapsedDeferrals, d.seq)
	if m.uncountDeferral(q, n, d) {
		q.count().Missing++
	}
	if b != nil {
		m.endInBatch(b, string(q.overflow.records.id(n)), queue.StateNone, now)
	}
	q.dropDeferral(n)
}

// answerDeferred answers for a job that is deferred already, or was cancelled while deferred. It returns the commit
// that the answer waits for.
func (m *Machine) answerDeferred(
	it *appendingJob, q *queueState, number uint64, d *deferral, now leaky.Instant,
) (wait uint64) {
	if d.state == cancelledDeferral {
		it.answerDuplicate(d.fingerprint, queue.Cancelled)
		return m.lastWait()
	}
	wait = m.waitsForDeferral(d)
	it.answerDuplicate(d.fingerprint, queue.Deferred)
	if it.answer.Outcome != queue.Duplicate {
		return wait
	}
	if number <= q.overflow.progress.olderUpTo {
		if m.Full != nil {
			*it.answer = queue.Appended{Outcome: queue.Failed, ID: it.job.ID, Err: m.Full}
			return 0
		}
		number, wait = m.renewDeferral(q, strings.Clone(it.job.ID), number), m.wait()
	}
	it.answer.Ticket, it.answer.At = ticket{q.number, number}.text(), now.Time()
	return wait
}

// deferJob records a job as deferred.
func (m *Machine) deferJob(it *appendingJob, q *queueState, rc *ruleCharges, now leaky.Instant) {
	o, id := q.ownOverflow(), strings.Clone(it.job.ID)
	if n := o.records.find(id); n != 0 { // an earlier deferral that has lapsed
		m.dropLapsed(q, n, now)
	}
	*it.answer = queue.Appended{
		Outcome: queue.SetAside, ID: id, State: queue.Deferred, At: now.Time(), Rules: rc.said(),
		Position: q.counts[queue.Waiting] + q.incoming.waiting + q.counts[queue.Deferred] + 1,
		ETA: queue.ETA{
			At: max(scheduledUntil(&it.job, m.wall(now)), m.wall(it.etaDeferred(q, now))).Time(),
		},
	}
	m.store.deferred++
	o.lastTicket++
	d := deferral{
		at: now, seq: m.store.deferred, fingerprint: it.fingerprint, cost: uint16(it.job.Cost), state: stillDeferred,
		size: uint32(len(it.record)), length: uint8(len(id)),
	}
	o.records.add(o.lastTicket, id, d)
	m.countDeferred(q, o.lastTicket, d.count())
	if it.job.Batch != "" {
		b := m.joinBatch(q, it.job.Batch, now, now)
		q.deferWith(b, o.lastTicket)
		b.noteLast(lastJob{
			it.lane, id, scheduledUntil(&it.job, m.wall(now)), turnOf(q.turn, it.job.Priority),
		})
	}
	it.answer.Ticket = ticket{q.number, o.lastTicket}.text()
	m.chargeRules(rc, now)
	m.touch(q)
	q.counters.SetAside++
	m.current.putDeferral(q, o.lastTicket, id, d, it.job.Batch)
	m.forgetLapsed(q, now, 2)
}

// etaDeferred returns when the job is expected to depart if it is deferred.
func (it *appendingJob) etaDeferred(q *queueState, now leaky.Instant) leaky.Instant {
	waiting, o := q.counts[queue.Waiting]+q.incoming.waiting, q.overflow
	return q.etaDeferred(
		waiting, q.gap(q.turn), o.cost, q.groupLoadIncoming(), q.costBounds(it.job.Cost, false), now,
	)
}

// renewDeferral moves the record of a job that is published again to a new ticket, in the current generation. Otherwise
// it could be given up while the new copy is on its way.
func (m *Machine) renewDeferral(q *queueState, id string, old uint64) (number uint64) {
	o := q.ownOverflow()
	m.store.deferred++
	o.lastTicket++
	d, b, label := *o.records.get(old), q.batchOfDeferral(old), ""
	m.current.dropDeferral(d.seq)
	d.seq = m.store.deferred
	m.removeDeferral(q, old)
	o.records.add(o.lastTicket, id, d)
	m.countDeferred(q, o.lastTicket, d.count())
	if b != nil {
		q.deferWith(b, o.lastTicket)
		label = b.label
	}
	m.current.putDeferral(q, o.lastTicket, id, d, label)
	m.touch(q) // its record has the last ticket
	return o.lastTicket
}

// Withdraw forgets the deferrals of jobs that were not put on the overflow after all. It returns how long until room is
// expected, and the commit that the answer waits for. For an unknown queue it promises nothing.
func (m *Machine) Withdraw(now leaky.Instant, w []queue.Ticketed) (promises []time.Duration, wait uint64) {
	promises = make([]time.Duration, len(w))
	for i := range w {
		q := m.queues[w[i].Queue]
		if q == nil {
			continue
		}
		promises[i] = q.retryAfter(1, now)
		number, d := q.deferral(w[i].ID, now)
		if d == nil || d.state != stillDeferred || parseTicket(w[i].Ticket) != (ticket{q.number, number}) {
			wait = max(wait, m.lastWait())
			continue
		}
		m.touch(q)
		q.counters.SetAside--
		m.current.dropDeferral(d.seq)
		b := q.batchOfDeferral(number)
		if m.removeDeferral(q, number); b != nil {
			m.leaveBatch(b, w[i].ID, now)
		}
		wait = m.wait()
		m.deletedBy = wait
	}
	return promises, wait
}

// announceRoomEach is the minimum time between announcements of a queue that nobody readmits to.
const announceRoomEach = time.Second

// readmitBatch returns how much room makes a readmission worth a call.
func (q *queueState) readmitBatch() int64 { return min(queue.MaxReadmit, max(1, (q.spec.Mark()+3)/4)) }

// announceRoom tells listeners that a queue with a backlog has room again. It is called after every change that may
// have made room.
func (m *Machine) announceRoom(q *queueState, now leaky.Instant) {
	waits := q.onOverflow()
	if waits == 0 || !q.live || m.overflowRoom(q) < min(q.readmitBatch(), waits) {
		return
	}
	if q.overflow.announcedAt != 0 && now.Sub(q.overflow.announcedAt) < announceRoomEach {
		return
	}
	if m.RoomHeard {
		m.rooms = append(m.rooms, q.name)
		q.ownOverflow().announcedAt = now
	}
}

// Backlogged returns the names of up to limit queues with a backlog. If there are more, the choice is random, so that
// no queue is left out forever.
func (m *Machine) Backlogged(limit int) []string {
	names := make([]string, 0, max(0, min(limit, len(m.withBacklog))))
	for q := range m.withBacklog {
		if len(names) >= limit {
			break
		}
		names = append(names, q.name)
	}
	slices.Sort(names)
	return names
}

// trackBacklog updates the set of queues with a backlog.
func (m *Machine) trackBacklog(q *queueState) {
	if q.live && q.onOverflow() > 0 {
		m.withBacklog[q] = struct{}{}
	} else {
		delete(m.withBacklog, q)
	}
}
