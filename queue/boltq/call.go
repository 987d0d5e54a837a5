package boltq

import (
	"context"
	"fmt"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// call is one caller's changes on their way to disk, all enqueued at once. Its
// fields are guarded by the engine's mutex until done is closed.
type call struct {
	enqueued   int // changes enqueued
	pending    int // of them, those whose fate is not known
	err        error
	done       chan struct{}
	releasedTo map[*queueState]int64 // jobs that it released into queues with an adapted rate
}

func newCall() *call { return &call{done: make(chan struct{})} }

// finish notes the fate of one change.
func (c *call) finish(err error) {
	if err != nil {
		c.err = err
	}
	if c.pending--; c.pending == 0 {
		close(c.done)
	}
}

// countReleased notes that a job of a queue was released.
func (c *call) countReleased(q *queueState) {
	if q.adapted == nil {
		return
	}
	if c.releasedTo == nil {
		c.releasedTo = map[*queueState]int64{}
	}
	c.releasedTo[q]++
}

// await waits until the fate of all the call's changes is known; c.err is then
// why some failed. When ctx ends first, they may still happen.
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

// awaitAll waits for other callers' changes. Nothing of the waiter is under way
// any more, so that no two callers wait for each other; but some of it may have
// happened.
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

// decideAll decides items with one, under the mutex, in as many rounds as it takes. An
// item that depends on changes under way answers with their call, and is decided
// again when that is done. What one enqueues for the call it is given is on disk when
// rounds returns.
func decideAll[T any](ctx context.Context, e *Engine, open []T, one func(item T, c *call, now leaky.Instant) (busy *call)) error {
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

// decideRound decides the open items that it can.
func decideRound[T any](e *Engine, open []T, c *call, one func(T, *call, leaky.Instant) *call) (again []T, others []*call, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
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
