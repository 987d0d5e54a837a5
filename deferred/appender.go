package deferred

import (
	"context"
	"errors"
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
	absent   *absences
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
		specs: newSpecs(engine.Get, stream.patience, appendAge), absent: newAbsences(), begun: make(chan struct{}),
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
	e := &entrance{a: a, ctx: ctx, jobs: jobs, answers: make([]queue.Appended, len(jobs)),
		courses: make([]course, len(jobs))}
	e.part()
	e.offer()
	e.put()
	return e.answers, e.err()
}

// course is how a job goes.
type course uint8

const (
	asked   course = iota // the engine decides
	aside                 // the engine has set it aside just now
	again                 // it was deferred before, and is stored once more: what was put then may have been lost
	alone                 // past the engine, which knows nothing of it
	unsure                // past the engine, which may have it all the same
	decided               // answered
)

// entrance is one call of Append.
type entrance struct {
	a       *Appender
	ctx     context.Context
	jobs    []queue.Job
	answers []queue.Appended
	courses []course
	passage *passage // of those that go past the engine; nil if nobody was asked about them
}

// part finds those that do not wait for the engine.
func (e *entrance) part() {
	for i := range e.jobs {
		name := e.jobs[i].Queue
		if i == 0 || name != e.jobs[i-1].Queue {
			e.a.specs.Refresh(name, appendAge) // no append waits for it
		}
		away, strayed := e.a.absent.look(name)
		switch {
		case away:
			e.courses[i] = alone
		case strayed && e.a.deferrable(&e.jobs[i]):
			e.courses[i] = alone // or it would overtake those that went before it
		}
	}
}

// offer asks the engine about the others.
func (e *entrance) offer() {
	jobs, at := e.jobs, []int(nil)
	for i, w := range e.courses {
		if w == asked {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return
	}
	if len(at) < len(jobs) {
		jobs = make([]queue.Job, 0, len(at))
		for _, i := range at {
			jobs = append(jobs, e.jobs[i])
		}
	}
	ctx, cancel := context.WithTimeout(e.ctx, e.a.patience)
	answers, err := e.a.engine.Offer(ctx, jobs)
	cancel()
	for k, i := range at {
		if len(answers) == len(jobs) {
			e.answers[i] = answers[k]
		} else {
			e.answers[i] = queue.Appended{Outcome: queue.Failed, ID: jobs[k].ID, Err: err}
		}
		e.courses[i] = e.judge(i)
	}
}

// judge decides what an answer of the engine's leads to.
func (e *entrance) judge(i int) course {
	answer := &e.answers[i]
	switch answer.Outcome {
	case queue.SetAside:
		return aside
	case queue.Duplicate:
		if answer.State == queue.Deferred {
			return again
		}
	case queue.OverflowFull:
		answer.RetryAfter = max(answer.RetryAfter, e.a.specs.opens(e.jobs[i].Queue))
	case queue.Failed:
		return e.failed(i)
	}
	return decided
}

// failed decides about a job that the engine could not.
func (e *entrance) failed(i int) course {
	err, name := e.answers[i].Err, e.jobs[i].Queue
	switch {
	case queue.GaveUp(e.ctx): // it was not the engine that gave up
		return decided
	case errors.Is(err, queue.ErrOutcomeUnknown):
		e.a.away(name, err)
		return unsure
	case errors.Is(err, queue.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		// the latter before it had left
		e.a.away(name, err)
		return alone
	case errors.Is(err, queue.ErrStoreFull) && e.a.deferrable(&e.jobs[i]):
		// nothing was changed, and the overflow is elsewhere
		return alone
	}
	return decided
}

// err is not nil when nothing could be decided.
func (e *entrance) err() error {
	for i := range e.answers {
		if e.answers[i].Outcome != queue.Failed {
			return nil
		}
	}
	if len(e.answers) == 0 {
		return nil
	}
	return e.answers[0].Err
}

// deferrable reports whether a job may be put on the overflow, as far as is known
// here.
func (a *Appender) deferrable(j *queue.Job) bool {
	spec, _, ok := a.specs.Known(j.Queue)
	return ok && j.Deferrable(spec.overflow)
}

// away notes that the engine does not answer for a queue.
func (a *Appender) away(name string, err error) {
	if a.absent.leave(name) {
		a.log.Warn("the engine does not answer; jobs that may wait go to the overflow", "queue", name,
			"error", fmt.Sprint(err))
	}
}
