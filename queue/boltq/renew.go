package boltq

import (
	"strings"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// renewDeferral gives the record of a job that is stored anew a number of the present
// generation, lest it be given up while that copy is on its way. It returns the number.
func (e *Engine) renewDeferral(it *appendItem, q *queueState, old uint64, c *call) uint64 {
	a := &q.overflow
	e.store.deferred++
	a.lastTicket++
	r := &renewDeferralChange{call: c, queue: q, id: strings.Clone(it.job.ID), old: old, number: a.lastTicket, record: *a.records.get(old), answer: it.answer}
	r.oldSeq, r.record.seq = r.record.seq, e.store.deferred
	q.claim(r.id, c)
	e.enqueue(c, r)
	return r.number
}

// renewDeferralChange moves the record of a deferred job to another number.
type renewDeferralChange struct {
	call        *call
	queue       *queueState
	id          string
	old, number uint64
	oldSeq      uint64
	record      deferral
	answer      *queue.Appended
}

func (c *renewDeferralChange) prepare(b *batch) { b.deltaOf(c.queue) } // which keeps the tickets

func (c *renewDeferralChange) write(t *tables) error {
	if err := t.dropDeferral(c.oldSeq); err != nil {
		return err
	}
	return t.putDeferral(c.queue, c.number, c.id, c.record)
}

func (c *renewDeferralChange) apply(e *Engine, _ leaky.Instant) {
	q := c.queue
	q.unclaim(c.id)
	e.removeDeferral(q, c.old)
	q.overflow.records.add(c.number, c.id, c.record)
	e.countDeferred(q, c.number, 1, int64(c.record.cost))
	c.call.finish(nil)
}

func (c *renewDeferralChange) rollBack(_ *Engine, err error) {
	a := &c.queue.overflow
	c.queue.unclaim(c.id)
	a.returnTicket(c.number)
	*c.answer = queue.Appended{Outcome: queue.Failed, ID: c.id, Err: err}
	c.call.finish(err)
}

func (c *renewDeferralChange) freesSpace() bool { return false }
