package boltq

import (
	"context"
	"strings"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// Offer implements queue.Overflow.
func (e *Engine) Offer(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	return e.append(ctx, jobs, true)
}

// answerDeferred answers for a job that is deferred already, or was cancelled then.
func (e *Engine) answerDeferred(it *appendItem, q *queueState, number uint64, c *call, now leaky.Instant) {
	d := q.overflow.records.get(number)
	if d.state == cancelledDeferral {
		it.answerDuplicate(d.print, queue.Cancelled)
		return
	}
	it.answerDuplicate(d.print, queue.Deferred)
	if it.answer.Outcome != queue.Duplicate {
		return
	}
	if number <= q.overflow.progress.olderUpTo && !e.outOfSpace() {
		number = e.renewDeferral(it, q, number, c)
	}
	it.answer.Ticket, it.answer.At = ticket{q.number, number}.text(), now.Time()
}

// deferJob reserves a place on the overflow; the job is recorded when that is on
// disk.
func (e *Engine) deferJob(it *appendItem, q *queueState, b *ruleCharges, c *call, now leaky.Instant) {
	a := &q.overflow
	e.store.deferred++
	a.lastTicket++
	a.deferring++
	a.deferringCost += it.job.Cost
	s := &deferChange{
		call: c, queue: q, id: strings.Clone(it.job.ID), number: a.lastTicket, turn: q.turn, answer: it.answer,
		bounds: q.costBounds(it.job.Cost, false), notBefore: scheduledUntil(&it.job, now), charges: b,
		record: deferral{at: now, seq: e.store.deferred, print: it.fingerprint, cost: uint16(it.job.Cost), state: stillDeferred},
	}
	q.claim(s.id, c)
	e.chargeRules(b, now)
	e.enqueue(c, s)
}

// etaDeferred is when the job is expected if it is set aside.
func (it *appendItem) etaDeferred(q *queueState, now leaky.Instant) leaky.Instant {
	waiting, a := q.counts[queue.Waiting]+q.incoming.waiting, &q.overflow
	return q.etaDeferred(waiting, q.gap(q.turn), a.cost+a.deferringCost, q.groupLoadIncoming(), q.costBounds(it.job.Cost, false), now)
}

// deferChange records a job as deferred.
type deferChange struct {
	call      *call
	queue     *queueState
	id        string
	number    uint64
	record    deferral
	turn      int64 // that it would have
	bounds    costBounds
	notBefore leaky.Instant // before which it does not depart
	answer    *queue.Appended
	charges   *ruleCharges // nil if no rules were asked
}

func (c *deferChange) prepare(b *batch) {
	b.deltaOf(c.queue).counters.SetAside++
	c.charges.addTo(b)
}

func (c *deferChange) write(t *tables) error {
	return t.putDeferral(c.queue, c.number, c.id, c.record)
}

func (c *deferChange) apply(e *Engine, now leaky.Instant) {
	q, a := c.queue, &c.queue.overflow
	q.unclaim(c.id)
	a.deferring--
	a.deferringCost -= int64(c.record.cost)
	if n := a.records.find(c.id); n != 0 { // one that counts no longer
		e.dropLapsed(q, n)
	}
	*c.answer = queue.Appended{
		Outcome: queue.SetAside, ID: c.id, State: queue.Deferred,
		Position: q.counts[queue.Waiting] + q.counts[queue.Deferred] + 1,
		ETA:      queue.ETA{At: max(c.notBefore, q.etaDeferred(q.counts[queue.Waiting], q.gap(c.turn), a.cost, q.groupLoad(false), c.bounds, now)).Time()},
		Ticket:   ticket{q.number, c.number}.text(), At: c.record.at.Time(),
		Rules: c.charges.confirm(),
	}
	a.records.add(c.number, c.id, c.record)
	e.countDeferred(q, c.number, 1, int64(c.record.cost))
	e.forgetLapsed(q, now, 2)
	c.call.finish(nil)
}

func (c *deferChange) rollBack(e *Engine, err error) {
	c.charges.revert(e.now())
	a := &c.queue.overflow
	c.queue.unclaim(c.id)
	a.deferring--
	a.deferringCost -= int64(c.record.cost)
	a.returnTicket(c.number)
	*c.answer = queue.Appended{Outcome: queue.Failed, ID: c.id, Err: err}
	c.call.finish(err)
}

func (c *deferChange) freesSpace() bool { return false }
