package pull

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// Turns limits callers to the rate of a pull queue: each call waits for a departure of its own. The waiting callers are
// the queue, in order of arrival, across all processes that use it.
//
// A turn is a job without a payload. Turns of the same lane, costs and priority are interchangeable: a waiting caller
// gets the next turn, no matter which caller reserved it. So a caller that dies takes nothing from those behind it.
// Give all callers of a queue about the same time limit: a caller with a short limit may use the turn of one with a
// long limit, and leaves a turn that expires sooner. The queue must hold only turns. A caller that meets another job
// there gives it back and gets an error.
//
// With several processes, give all callers the same costs and priority in each lane. A process that gets a turn of a
// kind for which none of its callers wait gives it back, which takes time from the queue.
type Turns struct {
	dispatcher *Dispatcher
	engine     TurnEngine
	queue      string
	settling   sync.WaitGroup

	mu        sync.Mutex
	ahead     time.Duration // of the engine's clock, relative to this machine's
	interval  time.Duration // between turns
	slack     time.Duration // of the queue
	read      time.Time     // when ahead and interval were read
	promising time.Time     // when the first of the present promises was made
	promised  time.Time     // when the next refused caller should come back
	takers    []*taker      // callers that wait
	unclaimed map[string]unclaimed
}

// TurnRequest asks for a turn.
type TurnRequest struct {
	App      string           // the caller's app, for rules that count by queue.Job.App; may be empty
	Lane     string           // empty means TurnLane
	Cost     int64            // 0 means 1
	Costs    map[string]int64 // in other units, as queue.Job.Costs
	Priority int              // among the turns of its lane
	Within   time.Duration    // maximum wait
}

// TurnEngine is the part of an engine that Turns uses.
type TurnEngine interface {
	queue.Appender
	queue.SpecReader
	queue.Jobs
}

// NewTurns returns the turns of a queue. The dispatcher, which hands them out, must use the same engine.
func NewTurns(engine TurnEngine, dispatcher *Dispatcher, queue string) *Turns {
	return &Turns{dispatcher: dispatcher, engine: engine, queue: queue}
}

// Close waits until the engine knows of all turns that came or were given up. Call it when all turns have
// ended: after the last Wait, Cancel, End or Fail.
func (t *Turns) Close() { t.settling.Wait() }

// Later is the error of a caller whose turn is too far off, or who finds too many others waiting.
type Later struct{ In time.Duration }

// RetryIn returns when to come back.
func (l *Later) RetryIn() time.Duration { return l.In }

func (l *Later) Error() string { return fmt.Sprintf("no turn yet; come back in %v", l.In) }

// TurnLane is the lane of turns without one. Jobs must not use lanes of turns: giving a turn back may remove any job
// there.
const TurnLane = "penstock.turn"

// turnType is the content type of turns, by which they are told from other jobs.
const turnType = "application/vnd.penstock.turn"

const (
	// turnRetry is when to come back to a queue if nothing better is known.
	turnRetry = time.Second
	minRetry  = time.Millisecond
	// maxPromise limits how far ahead turns are promised to refused callers, unless one interval is longer. When a
	// promised turn was not used, one in lapsing of the promised turns is taken back. Engines have such a rule
	// for places in a full queue.
	maxPromise = time.Hour
	lapsing    = 8
	// clockAge is how long a measured difference of clocks is used.
	clockAge = 10 * time.Second
)

// Wait waits for a turn and returns nil when it has come: start now. If the turn would not come within the given time,
// the error is a *Later, if possible at once. After any error the caller's place is given back. Other errors: ctx's,
// the engine's, queue.ErrUnknownQueue, and an *invalid.Error if the queue is not a pull queue.
func (t *Turns) Wait(ctx context.Context, within time.Duration) error {
	turn, err := t.Reserve(ctx, within)
	if err != nil {
		return err
	}
	return turn.Wait(ctx)
}

// Reserve reserves a future turn. The caller must wait for it or cancel it: an abandoned turn holds up others until
// the given time is over. Errors are as for Wait, and immediate.
func (t *Turns) Reserve(ctx context.Context, within time.Duration) (*Turn, error) {
	return t.Request(ctx, TurnRequest{Within: within})
}

// Request is like Reserve, for a turn of a lane, with a cost.
func (t *Turns) Request(ctx context.Context, r TurnRequest) (*Turn, error) {
	since, k := time.Now(), r.kind()
	turn, err := t.request(ctx, r, k)
	if err != nil {
		t.waited(ctx, k, since, err)
		return nil, err
	}
	turn.since = since
	return turn, nil
}

func (t *Turns) request(ctx context.Context, r TurnRequest, k kind) (*Turn, error) {
	within := r.Within
	ahead, err := t.clock(ctx)
	if err != nil {
		return nil, withCause(ctx, err)
	}
	turn := &Turn{turns: t, kind: k, id: k.newTurnID(), until: time.Now().Add(within)}
	job := queue.Job{
		Queue: t.queue, ID: turn.id, Lane: k.lane, ContentType: turnType, Cost: k.cost, Costs: r.Costs, Priority: k.priority,
		ExpiresAt: turn.until.Add(ahead), Overflow: queue.Reject, App: r.App,
	}
	asked := time.Now()
	answers, err := t.append(ctx, []queue.Job{job})
	a := queue.Appended{Err: err}
	if len(answers) == 1 {
		a = answers[0]
	}
	switch a.Outcome {
	case queue.Accepted:
		turn.at = a.ETA.At.Add(-ahead)
		t.lapsePromises(asked, turn.until.Sub(turn.at))
		return turn, nil
	case queue.Lapsed:
		if a.ETA.At.IsZero() { // the time was over before the engine could estimate the turn
			return nil, &Later{turnRetry}
		}
		return nil, &Later{max(minRetry, time.Until(t.promise(a.ETA.At.Add(-ahead-within))))}
	case queue.UnknownQueue:
		return nil, fmt.Errorf("%s: %w", t.queue, queue.ErrUnknownQueue)
	}
	if a.Outcome.Refusal().Again() {
		return nil, &Later{max(minRetry, a.RetryAfter)}
	}
	err = withCause(ctx, fmt.Errorf("no turn of %s: %v: %w", t.queue, a.Outcome, a.Err))
	if ctx.Err() != nil || errors.Is(err, queue.ErrOutcomeUnknown) { // the turn may have been appended
		t.giveUp(ctx, k, turn.id, false)
	}
	return nil, err
}

// append appends in a goroutine of its own: a deep call doubles a goroutine's stack, and a caller would keep the large
// one while it waits.
func (t *Turns) append(ctx context.Context, jobs []queue.Job) (answers []queue.Appended, err error) {
	var panicked any
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				panicked = fmt.Sprintf("%v\n%s", p, debug.Stack())
			}
		}()
		answers, err = t.engine.Append(ctx, jobs)
	}()
	if <-done; panicked != nil {
		panic(panicked)
	}
	return answers, err
}

// promise returns when a caller should come back that has no chance of a turn in time before room. Consecutive callers
// are promised consecutive turns, as from a full queue.
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
	if now := time.Now(); t.promised.Before(now) {
		t.promising = now
	}
	t.promised = at.Add(t.interval)
	return at
}

// lapsePromises takes back some promised turns when a caller gets a turn at least two intervals before its time is
// over: callers with earlier promises have not come back, or they would have taken that turn. A caller that asked
// before the first of these promises was made says nothing about them.
func (t *Turns) lapsePromises(asked time.Time, spare time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if left := time.Until(t.promised); left > 0 && spare >= 2*t.interval && asked.After(t.promising) {
		t.promised = t.promised.Add(-left / lapsing)
	}
}

// withCause adds ctx's error to an engine's error if the caller has given up: the engine cannot distinguish that from a
// broken connection.
func withCause(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %w", ctx.Err(), err)
}

// clock returns how far the engine's clock, which decides, is ahead of this machine's.
func (t *Turns) clock(ctx context.Context) (ahead time.Duration, err error) {
	t.mu.Lock()
	ahead, read := t.ahead, t.read
	t.mu.Unlock()
	if !read.IsZero() && time.Since(read) < clockAge {
		return ahead, nil
	}
	return t.readClock(ctx)
}

// readClock is apart from clock because an Info is large: the stack of each waiting caller would have room for one.
func (t *Turns) readClock(ctx context.Context) (ahead time.Duration, err error) {
	asked := time.Now() // not under the mutex: callers waiting for it would not notice the end of their ctx
	info, err := t.engine.Get(ctx, t.queue)
	if err != nil {
		return 0, err
	}
	if !info.Spec.Pull { // a drainer would deliver the turns
		return 0, &invalid.Error{
			Field: "queue", Value: t.queue,
			Reason: "is not a pull queue, so it has no turns; give it pull: true",
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.read, t.interval, t.slack = time.Now(), info.Spec.Rate.Interval(), info.Spec.EffectiveSlack()
	t.ahead = info.Now.Sub(asked.Add(t.read.Sub(asked) / 2))
	return t.ahead, nil
}

// doubt has the next caller read the queue's spec again: it may no longer be a pull queue.
func (t *Turns) doubt() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.read = time.Time{}
}
