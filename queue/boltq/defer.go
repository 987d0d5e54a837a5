package boltq

import (
	"context"
	"strings"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// Offer implements queue.Overflow.
func (e *Engine) Offer(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	return e.append(ctx, jobs, true)
}

// answerDeferred answers for a job that is deferred already, or was cancelled while it was.
func (m *machine) answerDeferred(it *appendItem, q *queueState, number uint64, c *call, now leaky.Instant) {
	d := q.overflow.records.get(number)
	if d.state == cancelledDeferral {
		it.answerDuplicate(d.fingerprint, queue.Cancelled)
		return
	}
	it.answerDuplicate(d.fingerprint, queue.Deferred)
	if it.answer.Outcome != queue.Duplicate {
		return
	}
	if number <= q.overflow.progress.olderUpTo && m.room.full == nil {
		number = m.renewDeferral(it, q, number, c)
	}
	it.answer.Ticket, it.answer.At = ticket{q.number, number}.text(), now.Time()
}

// deferJob reserves a ticket; the job counts as deferred once that is on disk.
func (m *machine) deferJob(it *appendItem, q *queueState, b *ruleCharges, c *call, now leaky.Instant) {
	a := &q.overflow
	m.store.deferred++
	a.lastTicket++
	a.deferring++
	a.deferringCost += it.job.Cost
	s := &deferChange{
		call: c, queue: q, id: strings.Clone(it.job.ID), number: a.lastTicket, turn: q.turn, answer: it.answer,
		bounds: q.costBounds(it.job.Cost, false), notBefore: scheduledUntil(&it.job, now), charges: b,
		record: deferral{
			at: now, seq: m.store.deferred, fingerprint: it.fingerprint, cost: uint16(it.job.Cost),
			state: stillDeferred,
		},
	}
	q.claim(s.id, c)
	m.chargeRules(b, now)
	m.enqueue(c, s)
}

// etaDeferred is when the job is expected if it is set aside.
func (it *appendItem) etaDeferred(q *queueState, now leaky.Instant) leaky.Instant {
	waiting, a := q.counts[queue.Waiting]+q.incoming.waiting, &q.overflow
	return q.etaDeferred(
		waiting, q.gap(q.turn), a.cost+a.deferringCost, q.groupLoadIncoming(), q.costBounds(it.job.Cost, false), now,
	)
}

// deferChange records a job as deferred.
type deferChange struct {
	call      *call
	queue     *queueState
	id        string
	number    uint64
	record    deferral
	turn      int64 // the turn that it would have
	bounds    costBounds
	notBefore leaky.Instant // its not-before
	answer    *queue.Appended
	charges   *ruleCharges // nil if no rules were asked
}

func (c *deferChange) prepare(b *batch) {
	b.deltaOf(c.queue).counters.SetAside++
	c.charges.addTo(b)
	b.putDeferral(c.queue, c.number, c.id, c.record)
}

func (c *deferChange) apply(m *machine, now leaky.Instant) {
	q, a := c.queue, &c.queue.overflow
	q.unclaim(c.id)
	a.deferring--
	a.deferringCost -= int64(c.record.cost)
	if n := a.records.find(c.id); n != 0 { // an earlier deferral that has lapsed
		m.dropLapsed(q, n)
	}
	*c.answer = queue.Appended{
		Outcome: queue.SetAside, ID: c.id, State: queue.Deferred,
		Position: q.counts[queue.Waiting] + q.counts[queue.Deferred] + 1,
		ETA: queue.ETA{
			At: max(
				c.notBefore,
				q.etaDeferred(q.counts[queue.Waiting], q.gap(c.turn), a.cost, q.groupLoad(false), c.bounds, now),
			).Time(),
		},
		Ticket: ticket{q.number, c.number}.text(), At: c.record.at.Time(),
		Rules: c.charges.confirm(),
	}
	a.records.add(c.number, c.id, c.record)
	m.countDeferred(q, c.number, 1, int64(c.record.cost))
	m.forgetLapsed(q, now, 2)
	c.call.finish(nil)
}

func (c *deferChange) rollBack(m *machine, now leaky.Instant, err error) {
	c.charges.revert(now)
	a := &c.queue.overflow
	c.queue.unclaim(c.id)
	a.deferring--
	a.deferringCost -= int64(c.record.cost)
	a.returnTicket(c.number)
	*c.answer = queue.Appended{Outcome: queue.Failed, ID: c.id, Err: err}
	c.call.finish(err)
}

func (c *deferChange) freesSpace() bool { return false }

// renewDeferral moves the record of a job that is published again to a new ticket, of the present generation.
// Otherwise it could be given up while the new copy is on its way.
func (m *machine) renewDeferral(it *appendItem, q *queueState, old uint64, c *call) uint64 {
	a := &q.overflow
	m.store.deferred++
	a.lastTicket++
	r := &renewDeferralChange{
		call: c, queue: q, id: strings.Clone(it.job.ID), old: old, number: a.lastTicket, record: *a.records.get(old),
		answer: it.answer,
	}
	r.oldSeq, r.record.seq = r.record.seq, m.store.deferred
	q.claim(r.id, c)
	m.enqueue(c, r)
	return r.number
}

// renewDeferralChange moves a deferral to another ticket.
type renewDeferralChange struct {
	call        *call
	queue       *queueState
	id          string
	old, number uint64
	oldSeq      uint64
	record      deferral
	answer      *queue.Appended
}

func (c *renewDeferralChange) prepare(b *batch) {
	b.deltaOf(c.queue) // which writes the last ticket
	b.dropDeferral(c.oldSeq)
	b.putDeferral(c.queue, c.number, c.id, c.record)
}

func (c *renewDeferralChange) apply(m *machine, _ leaky.Instant) {
	q := c.queue
	q.unclaim(c.id)
	m.removeDeferral(q, c.old)
	q.overflow.records.add(c.number, c.id, c.record)
	m.countDeferred(q, c.number, 1, int64(c.record.cost))
	c.call.finish(nil)
}

func (c *renewDeferralChange) rollBack(_ *machine, _ leaky.Instant, err error) {
	a := &c.queue.overflow
	c.queue.unclaim(c.id)
	a.returnTicket(c.number)
	*c.answer = queue.Appended{Outcome: queue.Failed, ID: c.id, Err: err}
	c.call.finish(err)
}

func (c *renewDeferralChange) freesSpace() bool { return false }

// withdrawItem is one job of a Withdraw.
type withdrawItem struct {
	queue.Ticketed
	retryAfter time.Duration
	err        error
}

// Withdraw implements queue.Overflow. For an unknown queue it promises nothing.
func (e *Engine) Withdraw(ctx context.Context, w []queue.Ticketed) ([]time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	open := make([]*withdrawItem, len(w))
	for i := range w {
		open[i] = &withdrawItem{Ticketed: w[i]}
	}
	if err := decideAll(ctx, e, open, e.withdraw); err != nil {
		return nil, err
	}
	promises := make([]time.Duration, len(w))
	for i, v := range open {
		if v.err != nil {
			return nil, v.err // the whole call may be repeated
		}
		promises[i] = v.retryAfter
	}
	return promises, nil
}

// withdraw decides about a withdrawal, unless that depends on a change under way.
func (m *machine) withdraw(v *withdrawItem, c *call, now leaky.Instant) (busy *call) {
	q := m.queues[v.Queue]
	if q == nil {
		return nil
	}
	if q.busy != nil {
		return q.busy
	}
	if busy := q.changeOf(v.ID); busy != nil {
		return busy
	}
	v.retryAfter = q.retryAfter(1, now)
	number, d := q.deferral(v.ID, now)
	if d == nil || d.state != stillDeferred || parseTicket(v.Ticket) != (ticket{q.number, number}) {
		return nil
	}
	q.claim(v.ID, c)
	m.enqueue(c, &withdrawChange{call: c, queue: q, number: number, seq: d.seq, of: v})
	return nil
}

// withdrawChange deletes the deferral of a job that was not put on the overflow after all.
type withdrawChange struct {
	call        *call
	queue       *queueState
	number, seq uint64
	of          *withdrawItem
}

func (c *withdrawChange) prepare(b *batch) {
	b.deltaOf(c.queue).counters.SetAside--
	b.dropDeferral(c.seq)
}

func (c *withdrawChange) apply(m *machine, _ leaky.Instant) {
	c.queue.unclaim(c.of.ID)
	m.removeDeferral(c.queue, c.number)
	c.call.finish(nil)
}

func (c *withdrawChange) rollBack(_ *machine, _ leaky.Instant, err error) {
	c.queue.unclaim(c.of.ID)
	c.of.err = err
	c.call.finish(err)
}

func (c *withdrawChange) freesSpace() bool { return true }
