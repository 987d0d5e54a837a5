package boltq

import (
	"strings"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// renew gives the record of a job that is stored anew a number of the present
// generation, lest it be given up while that copy is on its way. It returns the number.
func (e *Engine) renew(n *entry, l *line, old uint64, c *call) uint64 {
	a := &l.aside
	e.store.deferred++
	a.tickets++
	r := &renewing{call: c, line: l, id: strings.Clone(n.job.ID), old: old, number: a.tickets, record: *a.records.get(old), answer: n.answer}
	r.oldSeq, r.record.seq = r.record.seq, e.store.deferred
	l.start(r.id, c)
	e.enqueue(c, r)
	return r.number
}

// renewing moves the record of a deferred job to another number.
type renewing struct {
	call        *call
	line        *line
	id          string
	old, number uint64
	oldSeq      uint64
	record      deferral
	answer      *queue.Appended
}

func (c *renewing) tally(b *batch) { b.of(c.line) } // which keeps the tickets

func (c *renewing) write(t *tables) error {
	if err := t.dropDeferral(c.oldSeq); err != nil {
		return err
	}
	return t.putDeferral(c.line, c.number, c.id, c.record)
}

func (c *renewing) done(e *Engine, _ leaky.Instant) {
	l := c.line
	l.stop(c.id)
	e.unrecord(l, c.old)
	l.aside.records.add(c.number, c.id, c.record)
	e.defers(l, c.number, 1, int64(c.record.cost))
	c.call.settle(nil)
}

func (c *renewing) undone(_ *Engine, err error) {
	a := &c.line.aside
	c.line.stop(c.id)
	a.takeBack(c.number)
	*c.answer = queue.Appended{Outcome: queue.Failed, ID: c.id, Err: err}
	c.call.settle(err)
}

func (c *renewing) frees() bool { return false }
