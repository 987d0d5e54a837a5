package boltq

import (
	"context"

	"github.com/penstock/penstock/leaky"
)

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
