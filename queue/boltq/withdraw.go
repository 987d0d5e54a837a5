package boltq

import (
	"context"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// withdrawItem is a job on its way to be forgotten.
type withdrawItem struct {
	queue.Ticketed
	retryAfter time.Duration
	err        error
}

// Withdraw implements queue.Overflow. Of a queue that there is not it promises
// nothing.
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
			return nil, v.err // it may be repeated, all of it
		}
		promises[i] = v.retryAfter
	}
	return promises, nil
}

// withdraw decides a withdrawal, unless it depends on changes under way.
func (e *Engine) withdraw(v *withdrawItem, c *call, now leaky.Instant) (busy *call) {
	q := e.queues[v.Queue]
	if q == nil {
		return nil
	}
	if q.busy != nil {
		return q.busy
	}
	if m := q.changeOf(v.ID); m != nil {
		return m
	}
	v.retryAfter = q.retryAfter(1, now)
	number, d := q.deferral(v.ID, now)
	if d == nil || d.state != stillDeferred || parseTicket(v.Ticket) != (ticket{q.number, number}) {
		return nil
	}
	q.claim(v.ID, c)
	e.enqueue(c, &withdrawChange{call: c, queue: q, number: number, seq: d.seq, of: v})
	return nil
}

// withdrawChange removes the record of a job that was not put aside after all.
type withdrawChange struct {
	call        *call
	queue       *queueState
	number, seq uint64
	of          *withdrawItem
}

func (c *withdrawChange) prepare(b *batch) { b.deltaOf(c.queue).counters.SetAside-- }

func (c *withdrawChange) write(t *tables) error { return t.dropDeferral(c.seq) }

func (c *withdrawChange) apply(e *Engine, _ leaky.Instant) {
	c.queue.unclaim(c.of.ID)
	e.removeDeferral(c.queue, c.number)
	c.call.finish(nil)
}

func (c *withdrawChange) rollBack(_ *Engine, err error) {
	c.queue.unclaim(c.of.ID)
	c.of.err = err
	c.call.finish(err)
}

func (c *withdrawChange) freesSpace() bool { return true }
