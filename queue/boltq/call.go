package boltq

import (
	"context"
	"fmt"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// call is one caller's changes on their way to disk, all enqueued at once. The engine's mutex guards its fields
// until done is closed.
type call struct {
	enqueued   int // changes enqueued
	pending    int // those of them whose outcome is not known yet
	err        error
	done       chan struct{}
	releasedTo map[*queueState]int64 // how many jobs it released into queues with an adapted rate
}

func newCall() *call { return &call{done: make(chan struct{})} }

// finish notes the outcome of one change.
func (c *call) finish(err error) {
	if err != nil {
		c.err = err
	}
	if c.pending--; c.pending == 0 {
		close(c.done)
	}
}

// countReleased notes that the call released a job of q.
func (c *call) countReleased(q *queueState) {
	if q.adapted == nil {
		return
	}
	if c.releasedTo == nil {
		c.releasedTo = map[*queueState]int64{}
	}
	c.releasedTo[q]++
}

// await waits until the outcome of all changes is known; c.err says why some failed. If ctx ends first, they may
// still happen.
func (c *call) await(ctx context.Context) error {
	if c.enqueued == 0 {
		return nil
	}
	select {
	case <-c.done:
		return nil
	default:
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return outcomeUnknown(ctx)
	}
}

func outcomeUnknown(ctx context.Context) error {
	return fmt.Errorf("%w: %w", queue.ErrOutcomeUnknown, context.Cause(ctx))
}

// awaitAll waits for other callers' changes. The caller has none under way itself, so callers cannot wait for each
// other in a circle.
func awaitAll(ctx context.Context, calls []*call) error {
	for _, c := range calls {
		select {
		case <-c.done:
		case <-ctx.Done():
			return outcomeUnknown(ctx)
		}
	}
	return nil
}

// decideAll decides items with decide, under the mutex, in as many rounds as it takes. For an item that depends on
// a change under way, decide returns the call of that change, and is asked again when that is done. Whatever was
// enqueued is on disk when decideAll returns.
func decideAll[T any](
	ctx context.Context, e *Engine, open []T, one func(item T, c *call, now leaky.Instant) (busy *call),
) error {
	for len(open) > 0 {
		c := newCall()
		again, others, err := decideRound(e, open, c, one)
		if err != nil {
			return err
		}
		if err := c.await(ctx); err != nil {
			return err
		}
		if err := awaitAll(ctx, others); err != nil {
			return err
		}
		open = again
	}
	return nil
}

// decideRound decides those items that it can.
func decideRound[T any](
	e *Engine, open []T, c *call, one func(T, *call, leaky.Instant) *call,
) (again []T, others []*call, err error) {
	e.lock()
	defer e.unlock()
	if err := e.usable(); err != nil {
		return nil, nil, err
	}
	now := e.now()
	for _, item := range open {
		if busy := one(item, c, now); busy != nil {
			again = append(again, item)
			others = append(others, busy)
		}
	}
	return again, others, nil
}
