package boltq

import (
	"context"
	"fmt"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// outcome is what becomes of a commit.
type outcome struct {
	known chan struct{} // closed when the rest is known
	err   error
	// undone says that nothing of it is on disk, for want of room: all of it may be decided again.
	undone  bool
	hadRoom bool // some of it was decided when there seemed to be room
}

// outcomeOf returns the outcome of a commit that is not durable yet.
func (e *Engine) outcomeOf(commit uint64) *outcome {
	o := e.awaited[commit]
	if o == nil {
		o = &outcome{known: make(chan struct{})}
		e.awaited[commit] = o
	}
	return o
}

// settleOutcomes says what became of all commits that are not durable, those up to a number apart from later ones.
func (e *Engine) settleOutcomes(upTo uint64, first, later outcome) {
	for n, o := range e.awaited {
		to := first
		if n > upTo {
			to = later
		}
		o.err, o.undone, o.hadRoom = to.err, to.undone, to.hadRoom
		close(o.known)
		delete(e.awaited, n)
	}
}

// await waits until the outcome is known. If ctx ends before, what was decided may still happen.
func (o *outcome) await(ctx context.Context) error {
	select {
	case <-o.known:
		return o.err
	default:
	}
	select {
	case <-o.known:
		return o.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", queue.ErrOutcomeUnknown, context.Cause(ctx))
	}
}

// decide has the machine decide, once, and returns the outcome of the commit that its answer waits for; nil if it waits
// for none.
func (e *Engine) decide(call func(now leaky.Instant) (wait uint64, err error)) (*outcome, error) {
	e.lock()
	defer e.unlock()
	if err := e.usable(); err != nil {
		return nil, err
	}
	wait, err := call(e.now())
	if wait == 0 {
		return nil, err
	}
	return e.outcomeOf(wait), err
}

// do has the machine decide, and waits until what it answers is durable. What was undone for want of room is decided
// again: by then the machine refuses what needs room, and lets through what frees some.
func (e *Engine) do(ctx context.Context, call func(now leaky.Instant) (wait uint64, err error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for {
		o, err := e.decide(call)
		if o == nil {
			return err
		}
		failed := o.await(ctx)
		switch {
		case failed == nil:
			return err
		case !o.undone || !o.hadRoom:
			return failed
		}
	}
}

// act is do for a call that somebody is named for.
func (e *Engine) act(
	ctx context.Context, call func(now leaky.Instant, by queue.Actor) (wait uint64, err error),
) error {
	by, err := queue.ActorOf(ctx)
	if err != nil {
		return err
	}
	return e.do(ctx, func(now leaky.Instant) (uint64, error) { return call(now, by) })
}

// look has the machine look something up, which waits for nothing.
func (e *Engine) look(ctx context.Context, call func(now leaky.Instant) error) error {
	e.lock()
	defer e.unlock()
	if e.closing {
		return queue.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return call(e.now())
}
