package boltq

import (
	"context"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// withdrawal is a job on its way to be forgotten.
type withdrawal struct {
	queue.Ticketed
	promise time.Duration
	err     error
}

// Withdraw implements queue.Overflow. Of a queue that there is not it promises
// nothing.
func (e *Engine) Withdraw(ctx context.Context, w []queue.Ticketed) ([]time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	open := make([]*withdrawal, len(w))
	for i := range w {
		open[i] = &withdrawal{Ticketed: w[i]}
	}
	if err := rounds(ctx, e, open, e.withdraw); err != nil {
		return nil, err
	}
	promises := make([]time.Duration, len(w))
	for i, v := range open {
		if v.err != nil {
			return nil, v.err // it may be repeated, all of it
		}
		promises[i] = v.promise
	}
	return promises, nil
}

// withdraw decides a withdrawal, unless it depends on changes under way.
func (e *Engine) withdraw(v *withdrawal, c *call, now leaky.Instant) (busy *call) {
	l := e.lines[v.Queue]
	if l == nil {
		return nil
	}
	if l.busy != nil {
		return l.busy
	}
	if m := l.moving(v.ID); m != nil {
		return m
	}
	v.promise = l.promise(1, now)
	number, d := l.deferral(v.ID, now)
	if d == nil || d.state != deferred || parseTicket(v.Ticket) != (ticket{l.number, number}) {
		return nil
	}
	l.start(v.ID, c)
	e.enqueue(c, &withdrawing{call: c, line: l, number: number, seq: d.seq, of: v})
	return nil
}

// withdrawing removes the record of a job that was not put aside after all.
type withdrawing struct {
	call        *call
	line        *line
	number, seq uint64
	of          *withdrawal
}

func (c *withdrawing) tally(b *batch) { b.of(c.line).counters.setAside-- }

func (c *withdrawing) write(t *tables) error { return t.dropDeferral(c.seq) }

func (c *withdrawing) done(e *Engine, _ leaky.Instant) {
	c.line.stop(c.of.ID)
	e.unrecord(c.line, c.number)
	c.call.settle(nil)
}

func (c *withdrawing) undone(_ *Engine, err error) {
	c.line.stop(c.of.ID)
	c.of.err = err
	c.call.settle(err)
}

func (c *withdrawing) frees() bool { return true }
