package deferred

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/penstock/penstock/internal/forward"
	"github.com/penstock/penstock/queue"
)

const (
	// probePause is the time between two probes of an engine that is away.
	probePause = 250 * time.Millisecond
	// withdrawTimeout bounds the withdrawal of jobs that could not be stored.
	withdrawTimeout = 2 * time.Second
	// retryFull is when to come back to a full overflow if nothing better is known.
	retryFull = 5 * time.Second
)

// Engine is the part of an engine that the overflow needs.
type Engine interface {
	queue.Overflow
	queue.SpecReader
}

// Appender is a queue.Appender that puts jobs on the overflow: the jobs that the engine sets aside, and deferrable
// jobs while the engine is away. Create one with New and run it with Run.
type Appender struct {
	engine   Engine
	stream   *Stream
	log      *slog.Logger
	specs    specs
	outages  *outages
	rules    RuleCheck
	patience time.Duration

	begun chan struct{} // closed when Run begins
	ended chan struct{} // closed when it ends
}

var _ queue.Appender = (*Appender)(nil)

// New returns an Appender in front of engine. Run runs it. It closes neither the engine nor the stream. rules checks
// jobs that bypass the engine while it is away; nil allows all of them.
func New(engine Engine, stream *Stream, rules RuleCheck) *Appender {
	return &Appender{
		engine: engine, stream: stream, log: stream.log, rules: rules, patience: stream.patience,
		specs: newSpecs(engine.Get, stream.patience, appendAge), outages: newOutages(), begun: make(chan struct{}),
		ended: make(chan struct{}),
	}
}

// Run watches the queues whose engine is away until ctx ends. It returns nil and is called once. To stop, end the
// calls of Append first, then Run, then the Run of the Stream.
func (a *Appender) Run(ctx context.Context) error {
	close(a.begun)
	a.watch(ctx)
	a.specs.Close()
	close(a.ended)
	return nil
}

// runs waits for Run to start: without Run, an engine that was away once would stay so forever. It returns an error
// after Run has ended.
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

// Append implements queue.Appender. A job that was put on the overflow answers Accepted with State Deferred. The
// caller must not change the payloads before Append returns, and never if the answer is Failed or Deferred: an engine
// that did not answer may still hold them.
//
// Before Run it waits until Run starts or ctx ends; after Run it returns queue.ErrClosed. In both cases nothing was
// done.
func (a *Appender) Append(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := a.runs(ctx); err != nil {
		return nil, err
	}
	c := &appendCall{
		a: a, ctx: ctx, jobs: jobs, answers: make([]queue.Appended, len(jobs)),
		routes: make([]route, len(jobs)),
	}
	c.route()
	c.offer()
	c.put()
	return c.answers, forward.Err(c.answers)
}

// deferrable reports whether a job may be put on the overflow, as far as this process knows.
func (a *Appender) deferrable(j *queue.Job) bool {
	spec, _, ok := a.specs.Known(j.Queue)
	return ok && j.Deferrable(spec.overflow)
}

// away records that the engine does not answer for a queue.
func (a *Appender) away(name string, err error) {
	if a.outages.begin(name) {
		a.log.Warn("the engine does not answer; jobs that may wait go to the overflow", "queue", name,
			"error", fmt.Sprint(err))
	}
}
