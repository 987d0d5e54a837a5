package deferred

import (
	"context"
	"errors"

	"github.com/penstock/penstock/queue"
)

// route is the way that a job takes.
type route uint8

const (
	toEngine      route = iota // the engine decides
	setAside                   // the engine has set it aside just now
	storeAgain                 // it was deferred before, and is stored once more: what was put then may have been lost
	pastEngine                 // past the engine, which knows nothing of it
	maybeInEngine              // past the engine, which may have it all the same
	answered                   // answered
)

// appendCall is one call of Append.
type appendCall struct {
	a         *Appender
	ctx       context.Context
	jobs      []queue.Job
	answers   []queue.Appended
	routes    []route
	gateCheck *gateCheck // of those that go past the engine; nil if nobody was asked about them
}

// route finds those that do not wait for the engine.
func (e *appendCall) route() {
	for i := range e.jobs {
		name := e.jobs[i].Queue
		if i == 0 || name != e.jobs[i-1].Queue {
			e.a.specs.Refresh(name, appendAge) // no append waits for it
		}
		away, strayed := e.a.outages.of(name)
		switch {
		case away:
			e.routes[i] = pastEngine
		case strayed && e.a.deferrable(&e.jobs[i]):
			e.routes[i] = pastEngine // or it would overtake those that went before it
		}
	}
}

// offer asks the engine about the others.
func (e *appendCall) offer() {
	jobs, at := e.jobs, []int(nil)
	for i, w := range e.routes {
		if w == toEngine {
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
		e.routes[i] = e.judge(i)
	}
}

// judge decides what an answer of the engine's leads to.
func (e *appendCall) judge(i int) route {
	answer := &e.answers[i]
	switch answer.Outcome {
	case queue.SetAside:
		return setAside
	case queue.Duplicate:
		if answer.State == queue.Deferred {
			return storeAgain
		}
	case queue.OverflowFull:
		answer.RetryAfter = max(answer.RetryAfter, e.a.specs.opens(e.jobs[i].Queue))
	case queue.Failed:
		return e.failed(i)
	}
	return answered
}

// failed decides about a job that the engine could not.
func (e *appendCall) failed(i int) route {
	err, name := e.answers[i].Err, e.jobs[i].Queue
	switch {
	case queue.GaveUp(e.ctx): // it was not the engine that gave up
		return answered
	case errors.Is(err, queue.ErrOutcomeUnknown):
		e.a.away(name, err)
		return maybeInEngine
	case errors.Is(err, queue.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		// the latter before it had left
		e.a.away(name, err)
		return pastEngine
	case errors.Is(err, queue.ErrStoreFull) && e.a.deferrable(&e.jobs[i]):
		// nothing was changed, and the overflow is elsewhere
		return pastEngine
	}
	return answered
}

// err is not nil when nothing could be decided.
func (e *appendCall) err() error {
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
