package boltq

import (
	"context"
	"fmt"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
)

// outcome is what becomes of a commit.
type outcome struct {
	known chan struct{} // closed when its fate is
	fate
}

// fate is how a commit ended.
type fate struct {
	err error
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
func (e *Engine) settleOutcomes(upTo uint64, first, later fate) {
	for n, o := range e.awaited {
		if o.fate = first; n > upTo {
			o.fate = later
		}
		close(o.known)
		delete(e.awaited, n)
	}
}

// await waits until the outcome is known. If ctx ends before, what was decided may still happen.
func (o *outcome) await(ctx context.Context) fate {
	select {
	case <-o.known:
		return o.fate
	default:
	}
	select {
	case <-o.known:
		return o.fate
	case <-ctx.Done():
		return fate{err: fmt.Errorf("%w: %w", queue.ErrOutcomeUnknown, context.Cause(ctx))}
	}
}

// decide has the machine decide, once, and returns the outcome of the commit that its answer waits for; nil if it waits
// for none. latest is the last instant that the clock can show, if the caller knows that; else 0.
func (e *Engine) decide(latest leaky.Instant, call func(now leaky.Instant) (wait uint64, err error)) (*outcome, error) {
	e.lockKnowing(latest)
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
	return e.doKnowing(ctx, 0, call)
}

// doKnowing is do for a caller that knows the last instant that the clock can show.
func (e *Engine) doKnowing(
	ctx context.Context, latest leaky.Instant, call func(now leaky.Instant) (wait uint64, err error),
) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for tries := 1; ; tries++ {
		o, err := e.decide(latest, call)
		if o == nil {
			return err
		}
		f := o.await(ctx)
		switch {
		case f.err == nil:
			return err
		case !f.undone, !f.hadRoom, tries == maxTries:
			return f.err
		}
	}
}

// maxTries bounds how often one call is decided: commits of others may find no room again and again.
const maxTries = 10

// act is do for a call that somebody is named for.
func (e *Engine) act(
	ctx context.Context, call func(now leaky.Instant, by audit.Actor) (wait uint64, err error),
) error {
	by, err := audit.ActorOf(ctx)
	if err != nil {
		return err
	}
	return e.do(ctx, func(now leaky.Instant) (uint64, error) { return call(now, by) })
}

// lookDurable is look for what waits until all that it says is durable; errors wait too. What was undone is looked up
// again.
func (e *Engine) lookDurable(ctx context.Context, call func(now leaky.Instant) (wait uint64, err error)) error {
	for {
		var o *outcome
		var answer error
		err := e.look(ctx, func(now leaky.Instant) (err error) {
			var wait uint64
			if wait, answer = call(now); wait != 0 {
				o = e.outcomeOf(wait)
			}
			return nil
		})
		switch {
		case err != nil:
			return err
		case o == nil:
			return answer
		}
		switch f := o.await(ctx); {
		case f.err == nil:
			return answer
		case !f.undone:
			return f.err
		}
	}
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
	if e.unread != nil {
		return fmt.Errorf("%w: %s cannot be read: %w", queue.ErrUnavailable, e.path, e.unread)
	}
	return call(e.now())
}
