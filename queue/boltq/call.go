package boltq

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/machine"
)

// outcome is what becomes of a commit.
type outcome struct {
	known chan struct{} // closed when the fate is known
	fate
}

// fate is how a commit ended.
type fate struct {
	err error
	// undone is set if nothing of it is on disk, for lack of room: all of it may be decided again.
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

// settleOutcomes sets the fate of all commits that are not durable: first for commits up to a number, later for the
// others.
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

// decide lets the machine decide, once, and returns the outcome of the commit that its answer waits for; nil if it
// waits for none. latest is the last instant that the clock can show, or 0 if the caller does not know it.
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

// do lets the machine decide, and waits until its answer is durable. What was undone for lack of room is decided again:
// now the machine refuses calls that need room, and accepts calls that free some.
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

// maxTries limits how often one call is decided: other calls' commits may find no room again and again.
const maxTries = 10

// act is do for a call with an actor.
func (e *Engine) act(
	ctx context.Context, call func(now leaky.Instant, by audit.Actor) (wait uint64, err error),
) error {
	by, err := audit.ActorOf(ctx)
	if err != nil {
		return err
	}
	return e.do(ctx, func(now leaky.Instant) (uint64, error) { return call(now, by) })
}

// answer is do for a call with a result. With an error the result is zero, but for queue.ErrRevision, which comes with
// the present revision.
func answer[T any](
	ctx context.Context, e *Engine, call func(now leaky.Instant) (result T, wait uint64, err error),
) (T, error) {
	var result, none T
	err := e.do(ctx, func(now leaky.Instant) (wait uint64, err error) {
		result, wait, err = call(now)
		return wait, err
	})
	if err != nil && !errors.Is(err, queue.ErrRevision) {
		return none, err
	}
	return result, err
}

// answerActor is answer for a call with an actor.
func answerActor[T any](
	ctx context.Context, e *Engine, call func(now leaky.Instant, by audit.Actor) (result T, wait uint64, err error),
) (result T, err error) {
	by, err := audit.ActorOf(ctx)
	if err != nil {
		return result, err
	}
	return answer(ctx, e, func(now leaky.Instant) (T, uint64, error) { return call(now, by) })
}

// read reads from the tables.
func read[T any](e *Engine, do func(machine.Transaction) (T, error)) (result T, err error) {
	err = e.db.view(func(tx machine.Transaction) (err error) { result, err = do(tx); return err })
	return result, err
}

// lookDurable is look for an answer or error that must not be given before it is durable. What was undone is looked up
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

// readable returns why the store cannot be read, or nil.
func (e *Engine) readable(ctx context.Context) error {
	return e.look(ctx, func(leaky.Instant) error { return nil })
}

// look lets the machine look something up without waiting for a commit.
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
