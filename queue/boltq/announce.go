package boltq

import (
	"context"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// Announce implements queue.Overflow.
func (e *Engine) Announce(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m := &readmitCall{ReadmitRequest: queue.ReadmitRequest{Queue: name}}
	if err := decideAll(ctx, e, []*readmitCall{m}, e.announce); err != nil {
		return err
	}
	return m.err
}

// announce carries an announcement out as a Readmit that only says what is behind, whoever
// has the way back.
func (e *Engine) announce(m *readmitCall, c *call, now leaky.Instant) (busy *call) {
	q := e.queues[m.Queue]
	if q == nil {
		m.err = unknownQueue(m.Queue)
		return nil
	}
	if q.busy != nil {
		return q.busy
	}
	if q.overflow.readmit != nil {
		return q.overflow.readmit
	}
	w := &readmitChange{call: c, queue: q, request: m, now: now, progress: q.overflow.progress}
	w.progress.behind, w.progress.announced = max(1, w.progress.behind), now
	q.overflow.readmit = c
	e.enqueue(c, w)
	return nil
}
