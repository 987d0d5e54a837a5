package boltq

import (
	"context"
	"fmt"

	"github.com/penstock/penstock/queue"
)

// call is one caller's changes on their way to disk, all enqueued at once. Its
// fields are guarded by the engine's mutex until done is closed.
type call struct {
	sent int // changes enqueued
	left int // of them, those whose fate is not known
	err  error
	done chan struct{}
	back map[*line]int64 // jobs that it released into queues with an adapted rate
}

func newCall() *call { return &call{done: make(chan struct{})} }

// settle notes the fate of one change.
func (c *call) settle(err error) {
	if err != nil {
		c.err = err
	}
	if c.left--; c.left == 0 {
		close(c.done)
	}
}

// brought notes that a job of a queue was released.
func (c *call) brought(l *line) {
	if l.adapted == nil {
		return
	}
	if c.back == nil {
		c.back = map[*line]int64{}
	}
	c.back[l]++
}

// await waits until the fate of all the call's changes is known; c.err is then
// why some failed. When ctx ends first, they may still happen.
func (c *call) await(ctx context.Context) error {
	if c.sent == 0 {
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
		return unknown(ctx)
	}
}

func unknown(ctx context.Context) error {
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
			return unknown(ctx)
		}
	}
	return nil
}
