package pull

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/penstock/penstock/queue"
)

// Turns holds callers to the rate of a pull queue: each waits for a departure of its own, and then does what it
// likes. The callers that wait are the queue, in the order in which they came, over all processes that use it.
//
// A turn is a job without a payload. Turns are alike: who waits takes the next, whosever it was, so that one who
// died in front of others takes nothing from them. They cost 1.
type Turns struct {
	desk     *Desk
	engine   TurnEngine
	queue    string
	settling sync.WaitGroup

	mu    sync.Mutex
	ahead time.Duration // how far the engine's clock is ahead of this machine's
	told  time.Time     // when that was found out
}

// TurnEngine is what Turns need of an engine, besides what its Desk needs.
type TurnEngine interface {
	queue.Appender
	Engine
	Cancel(ctx context.Context, queue, id string) (queue.State, error)
}

// NewTurns returns the turns of a queue, which are handed out by a desk over the same engine.
func NewTurns(engine TurnEngine, desk *Desk, queue string) *Turns {
	return &Turns{desk: desk, engine: engine, queue: queue}
}

// Close waits until the turns that came are known to the engine to be over. Call it when nobody waits
// any more.
func (t *Turns) Close() { t.settling.Wait() }

// Later says that a turn is too far off, or that too many wait for one.
type Later struct{ In time.Duration }

// RetryIn is when to come back.
func (l *Later) RetryIn() time.Duration { return l.In }

func (l *Later) Error() string { return fmt.Sprintf("no turn yet; come back in %v", l.In) }

const (
	// turnRetry is when to come back to a queue of which nothing better is known.
	turnRetry = time.Second
	leastIn   = time.Millisecond
	// clockAge is how long a difference of clocks is believed in.
	clockAge = 10 * time.Second
)

// Wait waits for a turn, and returns nil when it has come: start now. If it would not come within that time the
// error is a *Later, at once as far as that can be told beforehand. Other errors: ctx's, the engine's,
// queue.ErrUnknownQueue, a *queue.FieldError if it is no pull queue.
func (t *Turns) Wait(ctx context.Context, within time.Duration) error {
	ahead, err := t.clock(ctx)
	if err != nil {
		return err
	}
	id, begun := queue.NewID(), time.Now()
	answers, err := t.engine.Append(ctx, []queue.Job{{Queue: t.queue, ID: id, ContentType: queue.DefaultContentType, Cost: 1, ExpiresAt: begun.Add(ahead + within)}})
	if len(answers) != 1 {
		return err
	}
	switch a := answers[0]; a.Outcome {
	case queue.Accepted:
	case queue.Lapsed:
		return &Later{max(leastIn, time.Until(a.ETA.At.Add(-ahead)))}
	case queue.Full:
		return &Later{a.RetryAfter}
	case queue.UnknownQueue:
		return fmt.Errorf("%s: %w", t.queue, queue.ErrUnknownQueue)
	default:
		if err == nil {
			err = a.Err
		}
		return errors.Join(fmt.Errorf("no turn of %s: %v", t.queue, a.Outcome), err)
	}
	err = t.take(ctx, within-time.Since(begun))
	if err != nil {
		// Nobody waits for it any more. One that was taken by another left his in its place.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
		defer cancel()
		_, _ = t.engine.Cancel(ctx, t.queue, id) // else it expires
	}
	return err
}

// take takes the next turn, whosever it is.
func (t *Turns) take(ctx context.Context, within time.Duration) error {
	handed, err := t.desk.Take(ctx, Ask{Queue: t.queue, Max: 1, Wait: within})
	if err != nil {
		return err
	}
	if handed.Jobs() == 0 {
		return &Later{turnRetry}
	}
	turn := handed.jobs[0].lease()
	handed.End(true)
	// It is over with its departure, and nobody has to wait until the engine knows.
	t.settling.Go(func() { _ = t.desk.settle([]queue.Settlement{{Lease: turn, Verdict: queue.Deliver}}) })
	return nil
}

// clock is how far the engine's clock is ahead of this machine's: only the engine's decides.
func (t *Turns) clock(ctx context.Context) (ahead time.Duration, err error) {
	t.mu.Lock()
	ahead, told := t.ahead, t.told
	t.mu.Unlock()
	if !told.IsZero() && time.Since(told) < clockAge {
		return ahead, nil
	}
	asked := time.Now() // without the mutex: behind an engine that does not answer nobody would hear his own ctx
	info, err := t.engine.Get(ctx, t.queue)
	if err != nil {
		return 0, err
	}
	if !info.Spec.Pull { // a drainer would deliver the turns
		return 0, &queue.FieldError{Field: "queue", Value: t.queue, Reason: "is no pull queue, and has no turns; give it pull: true"}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told = time.Now()
	t.ahead = info.Now.Sub(asked.Add(t.told.Sub(asked) / 2))
	return t.ahead, nil
}
