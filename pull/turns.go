package pull

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// Turns holds callers to the rate of a pull queue: each waits for a departure of its own, and then does what it likes.
// The callers that wait are the queue, in the order in which they came, over all processes that use it.
//
// A turn is a job without a payload, in a lane of the queue that only turns use. Turns are alike: whoever waits takes
// the next, whosever it was, so that one who died in front of others takes nothing from them. They cost 1. Give all
// callers of a queue about the same bound: the turn of one who would wait long may be taken by one who would not, and
// his own, which he leaves in its place, expires sooner. The queue is for turns alone: a job that a caller meets there
// is put back, and the caller is told so.
type Turns struct {
	dispatcher *Dispatcher
	engine     TurnEngine
	queue      string
	settling   sync.WaitGroup

	mu       sync.Mutex
	ahead    time.Duration // how far the engine's clock is ahead of this machine's
	interval time.Duration // between turns
	told     time.Time     // when those were found out
	promised time.Time     // when the next refused caller should come back
}

// TurnEngine is what Turns need of an engine.
type TurnEngine interface {
	queue.Appender
	queue.SpecReader
	queue.Jobs
}

// NewTurns returns the turns of a queue, which are handed out by a dispatcher over the same engine.
func NewTurns(engine TurnEngine, dispatcher *Dispatcher, queue string) *Turns {
	return &Turns{dispatcher: dispatcher, engine: engine, queue: queue}
}

// Close waits until the turns that came are known to the engine to be over, and those that were given up are given
// back. Call it when nobody waits any more.
func (t *Turns) Close() { t.settling.Wait() }

// Later says that a turn is too far off, or that too many wait for one.
type Later struct{ In time.Duration }

// RetryIn is when to come back.
func (l *Later) RetryIn() time.Duration { return l.In }

func (l *Later) Error() string { return fmt.Sprintf("no turn yet; come back in %v", l.In) }

// TurnLane is the lane of turns, which jobs must not have: giving a turn back may take any job there.
const TurnLane = "penstock.turn"

const (
	// turnRetry is when to come back to a queue of which nothing better is known.
	turnRetry = time.Second
	leastIn   = time.Millisecond
	// maxPromise bounds how far promised turns reach, unless one interval is longer; lapsing is the part of them that is
	// taken back when one was not used. The engine has the same rule for places in a full queue.
	maxPromise = time.Hour
	lapsing    = 8
	// clockAge is how long a difference of clocks is believed in.
	clockAge = 10 * time.Second
)

// Wait waits for a turn, and returns nil when it has come: start now. If it would not come within that time the error
// is a *Later, at once as far as that can be told beforehand. Whoever is not let in gives his place back. Other errors:
// ctx's, the engine's, queue.ErrUnknownQueue, an *invalid.Error if it is no pull queue.
func (t *Turns) Wait(ctx context.Context, within time.Duration) error {
	turn, err := t.Reserve(ctx, within)
	if err != nil {
		return err
	}
	return turn.Wait(ctx)
}

// Reserve takes a place for a turn to come, which must then be waited for or cancelled: its departure is nobody's else,
// and what it holds up expires only when that time is over. Errors: those of Wait, at once.
func (t *Turns) Reserve(ctx context.Context, within time.Duration) (*Turn, error) {
	return t.reserve(ctx, "", within)
}

func (t *Turns) reserve(ctx context.Context, app string, within time.Duration) (*Turn, error) {
	ahead, err := t.clock(ctx)
	if err != nil {
		return nil, cut(ctx, err)
	}
	turn := &Turn{turns: t, id: queue.NewID(), until: time.Now().Add(within)}
	job := queue.Job{
		Queue: t.queue, ID: turn.id, Lane: TurnLane, ContentType: queue.DefaultContentType, Cost: 1,
		ExpiresAt: turn.until.Add(ahead), Overflow: queue.Reject, App: app,
	}
	answers, err := t.engine.Append(ctx, []queue.Job{job})
	a := queue.Appended{Err: err}
	if len(answers) == 1 {
		a = answers[0]
	}
	switch a.Outcome {
	case queue.Accepted:
		turn.at = a.ETA.At.Add(-ahead)
		t.lapsePromises(turn.until.Sub(turn.at))
		return turn, nil
	case queue.Lapsed:
		if a.ETA.At.IsZero() { // the time was over before it could be told how long it would be
			return nil, &Later{turnRetry}
		}
		return nil, &Later{max(leastIn, time.Until(t.promise(a.ETA.At.Add(-ahead-within))))}
	case queue.UnknownQueue:
		return nil, fmt.Errorf("%s: %w", t.queue, queue.ErrUnknownQueue)
	}
	if a.Outcome.Refusal().Again() {
		return nil, &Later{max(leastIn, a.RetryAfter)}
	}
	err = cut(ctx, fmt.Errorf("no turn of %s: %v: %w", t.queue, a.Outcome, a.Err))
	if ctx.Err() != nil || errors.Is(err, queue.ErrOutcomeUnknown) { // it may be in
		t.giveUp(ctx, turn.id, false)
	}
	return nil, err
}

// promise returns when a caller should come back whose turn would be too late before room. By then all but one interval
// of that caller's time is enough. Consecutive callers get consecutive turns, as from a full queue.
func (t *Turns) promise(room time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := room
	if at.Before(t.promised) {
		at = t.promised
	}
	if last := room.Add(max(maxPromise, t.interval)); at.After(last) {
		at = last
	}
	t.promised = at.Add(t.interval)
	return at
}

// lapsePromises takes promised turns back when a caller gets a turn with time to spare for two: had the callers that
// were promised earlier turns come back, they would have taken it.
func (t *Turns) lapsePromises(spare time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if left := time.Until(t.promised); left > 0 && spare >= 2*t.interval {
		t.promised = t.promised.Add(-left / lapsing)
	}
}

// cut says of an error that it was the caller who gave up, if he did: to an engine that is the same as a line that is
// cut.
func cut(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %w", ctx.Err(), err)
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
		return 0, &invalid.Error{
			Field: "queue", Value: t.queue,
			Reason: "is no pull queue, and has no turns; give it pull: true",
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told, t.interval = time.Now(), info.Spec.Rate.Interval()
	t.ahead = info.Now.Sub(asked.Add(t.told.Sub(asked) / 2))
	return t.ahead, nil
}

// doubt has the next caller look at the queue again: it may be no pull queue any more.
func (t *Turns) doubt() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told = time.Time{}
}
