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

// deferred answers for a job that is deferred already, or was cancelled then.
func (e *Engine) deferred(n *entry, l *line, number uint64, c *call, now leaky.Instant) {
	d := l.aside.records.get(number)
	if d.state == called {
		n.known(d.print, queue.Cancelled)
		return
	}
	n.known(d.print, queue.Deferred)
	if n.answer.Outcome != queue.Duplicate {
		return
	}
	if number <= l.aside.way.gen && !e.full() {
		number = e.renew(n, l, number, c)
	}
	n.answer.Ticket, n.answer.At = ticket{l.number, number}.text(), now.Time()
}

// setAside reserves a place on the overflow; the job is recorded when that is on
// disk.
func (e *Engine) setAside(n *entry, l *line, b *bill, c *call, now leaky.Instant) {
	a := &l.aside
	e.store.deferred++
	a.tickets++
	a.leaving++
	a.owing += n.job.Cost
	s := &settingAside{
		call: c, line: l, id: strings.Clone(n.job.ID), number: a.tickets, turn: l.turn, answer: n.answer,
		risk: l.risk(n.job.Cost, false), later: later(&n.job, now), bill: b,
		record: deferral{at: now, seq: e.store.deferred, print: n.print, cost: uint16(n.job.Cost), state: deferred},
	}
	l.start(s.id, c)
	e.charge(b, now)
	e.enqueue(c, s)
}

// etaAside is when the job is expected if it is set aside.
func (n *entry) etaAside(l *line, now leaky.Instant) leaky.Instant {
	waiting, a := l.count[queue.Waiting]+l.coming.waiting, &l.aside
	return l.etaAside(waiting, l.gap(l.turn), a.cost+a.owing, l.kinshipComing(), l.risk(n.job.Cost, false), now)
}

// settingAside records a job as deferred.
type settingAside struct {
	call   *call
	line   *line
	id     string
	number uint64
	record deferral
	turn   int64 // that it would have
	risk   risk
	later  leaky.Instant // before which it does not depart
	answer *queue.Appended
	bill   *bill // nil if no rules were asked
}

func (c *settingAside) tally(b *batch) {
	b.of(c.line).counters.setAside++
	c.bill.with(b)
}

func (c *settingAside) write(t *tables) error {
	return t.putDeferral(c.line, c.number, c.id, c.record)
}

func (c *settingAside) done(e *Engine, now leaky.Instant) {
	l, a := c.line, &c.line.aside
	l.stop(c.id)
	a.leaving--
	a.owing -= int64(c.record.cost)
	if n := a.records.find(c.id); n != 0 { // one that counts no longer
		e.lose(l, n)
	}
	*c.answer = queue.Appended{
		Outcome: queue.SetAside, ID: c.id, State: queue.Deferred,
		Position: l.count[queue.Waiting] + l.count[queue.Deferred] + 1,
		ETA:      queue.ETA{At: max(c.later, l.etaAside(l.count[queue.Waiting], l.gap(c.turn), a.cost, l.kinship(false), c.risk, now)).Time()},
		Ticket:   ticket{l.number, c.number}.text(), At: c.record.at.Time(),
		Rules: c.bill.paid(),
	}
	a.records.add(c.number, c.id, c.record)
	e.defers(l, c.number, 1, int64(c.record.cost))
	e.expunge(l, now, 2)
	c.call.settle(nil)
}

func (c *settingAside) undone(e *Engine, err error) {
	c.bill.unpaid(e.now())
	a := &c.line.aside
	c.line.stop(c.id)
	a.leaving--
	a.owing -= int64(c.record.cost)
	a.takeBack(c.number)
	*c.answer = queue.Appended{Outcome: queue.Failed, ID: c.id, Err: err}
	c.call.settle(err)
}

func (c *settingAside) frees() bool { return false }
