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
	m := &readmission{ReadmitRequest: queue.ReadmitRequest{Queue: name}}
	if err := rounds(ctx, e, []*readmission{m}, e.announce); err != nil {
		return err
	}
	return m.err
}

// announce carries an announcement out as a Readmit that only says what is behind, whoever
// has the way back.
func (e *Engine) announce(m *readmission, c *call, now leaky.Instant) (busy *call) {
	l := e.lines[m.Queue]
	if l == nil {
		m.err = unknownQueue(m.Queue)
		return nil
	}
	if l.busy != nil {
		return l.busy
	}
	if l.aside.taking != nil {
		return l.aside.taking
	}
	w := &readmitting{call: c, line: l, of: m, now: now, way: l.aside.way}
	w.way.behind, w.way.announced = max(1, w.way.behind), now
	l.aside.taking = c
	e.enqueue(c, w)
	return nil
}
