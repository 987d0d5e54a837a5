package deferred

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/penstock/penstock/queue"
)

const (
	// probePause is how often an engine that is away is asked whether it is back.
	probePause = 250 * time.Millisecond
	// withdrawTimeout bounds taking back what could not be stored.
	withdrawTimeout = 2 * time.Second
	// retryFull is when to come back to a full overflow of which nothing better is known.
	retryFull = 5 * time.Second
)

// Engine is what the overflow needs of an engine.
type Engine interface {
	queue.Overflow
	queue.SpecReader
}

// Appender is a queue.Appender that puts jobs on the overflow: those that the engine
// sets aside, and those that may wait while the engine is away. Make one with New, and Run
// it.
type Appender struct {
	engine   Engine
	stream   *Stream
	log      *slog.Logger
	specs    specs
	outages  *outages
	gate     Gate
	patience time.Duration

	begun chan struct{} // closed when Run begins
	ended chan struct{} // closed when it ends
}

var _ queue.Appender = (*Appender)(nil)

// New returns an Appender in front of engine, which Run runs. Neither the engine nor the
// stream is closed by it. gate is asked about jobs that go past the engine while that is away; nil
// lets all through.
func New(engine Engine, stream *Stream, gate Gate) *Appender {
	return &Appender{
		engine: engine, stream: stream, log: stream.log, gate: gate, patience: stream.patience,
		specs: newSpecs(engine.Get, stream.patience, appendAge), outages: newOutages(), begun: make(chan struct{}),
		ended: make(chan struct{}),
	}
}

// Run looks after the queues whose engine is away, until ctx ends. It returns nil, and is
// called once. End what calls Append first, then Run, then that of the Stream.
func (a *Appender) Run(ctx context.Context) error {
	close(a.begun)
	a.watch(ctx)
	a.specs.Close()
	close(a.ended)
	return nil
}

// runs waits for Run to begin: without it an engine that was away once would be so for
// ever. It returns an error when it has ended.
func (a *Appender) runs(ctx context.Context) error {
	select {
	case <-a.begun:
	case <-ctx.Done():
		return fmt.Errorf("deferred: Append before Run: %w", ctx.Err())
	}
	select {
	case <-a.ended:
		return fmt.Errorf("%w: deferred: Append after Run", queue.ErrClosed)
	default:
		return nil
	}
}

// Append implements queue.Appender. Of a job that was put on the overflow it answers
// Accepted, with State Deferred. The payloads must not be changed before Append
// returns; nor, ever, when it answers Failed or Deferred: an engine that did not
// answer may still hold them.
//
// Before Run it waits until Run begins, or ctx ends; after Run the answer is
// queue.ErrClosed. In both cases nothing was done.
func (a *Appender) Append(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := a.runs(ctx); err != nil {
		return nil, err
	}
	e := &appendCall{
		a: a, ctx: ctx, jobs: jobs, answers: make([]queue.Appended, len(jobs)),
		routes: make([]route, len(jobs)),
	}
	e.route()
	e.offer()
	e.put()
	return e.answers, e.err()
}

// deferrable reports whether a job may be put on the overflow, as far as is known
// here.
func (a *Appender) deferrable(j *queue.Job) bool {
	spec, _, ok := a.specs.Known(j.Queue)
	return ok && j.Deferrable(spec.overflow)
}

// away notes that the engine does not answer for a queue.
func (a *Appender) away(name string, err error) {
	if a.outages.begin(name) {
		a.log.Warn("the engine does not answer; jobs that may wait go to the overflow", "queue", name,
			"error", fmt.Sprint(err))
	}
}
