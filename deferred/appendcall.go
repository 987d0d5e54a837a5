package deferred

import (
	"context"
	"errors"

	"github.com/penstock/penstock/internal/forward"
	"github.com/penstock/penstock/queue"
)

// route is the way that a job takes.
type route uint8

const (
	toEngine      route = iota // the engine decides
	setAside                   // the engine has just set it aside
	storeAgain                 // deferred before, and stored once more: the first message may have been lost
	pastEngine                 // bypasses the engine, which does not know it
	maybeInEngine              // bypasses the engine, which may have it nevertheless
	answered                   // the job has its answer
)

// appendCall is one call of Append.
type appendCall struct {
	a       *Appender
	ctx     context.Context
	jobs    []queue.Job
	answers []queue.Appended
	routes  []route
	checked *checked // of the jobs that bypass the engine; nil if none was checked
}

// route finds the jobs that do not wait for the engine.
func (c *appendCall) route() {
	for i := range c.jobs {
		name := c.jobs[i].Queue
		if i == 0 || name != c.jobs[i-1].Queue {
			c.a.specs.Refresh(name, appendAge) // no append waits for it
		}
		away, strayed := c.a.outages.of(name)
		switch {
		case away:
			c.routes[i] = pastEngine
		case strayed && c.a.deferrable(&c.jobs[i]):
			c.routes[i] = pastEngine // otherwise it would overtake the strays
		}
	}
}

// offer asks the engine about the other jobs.
func (c *appendCall) offer() {
	var at []int
	for i, way := range c.routes {
		if way == toEngine {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.a.patience)
	forward.Jobs(ctx, c.a.engine.Offer, c.jobs, at, c.answers)
	cancel()
	for _, i := range at {
		c.routes[i] = c.judge(i)
	}
}

// judge returns the route of a job by the engine's answer.
func (c *appendCall) judge(i int) route {
	answer := &c.answers[i]
	switch answer.Outcome {
	case queue.SetAside:
		return setAside
	case queue.Duplicate:
		if answer.State == queue.Deferred {
			return storeAgain
		}
	case queue.OverflowFull:
		answer.RetryAfter = max(answer.RetryAfter, c.a.specs.opens(c.jobs[i].Queue))
	case queue.Failed:
		return c.failed(i)
	}
	return answered
}

// failed returns the route of a job that the engine could not decide.
func (c *appendCall) failed(i int) route {
	err, name := c.answers[i].Err, c.jobs[i].Queue
	switch {
	case queue.GaveUp(c.ctx): // the caller gave up, not the engine
		return answered
	case errors.Is(err, queue.ErrOutcomeUnknown):
		c.a.away(name, err)
		return maybeInEngine
	case errors.Is(err, queue.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		// the deadline passed before the job was sent
		c.a.away(name, err)
		return pastEngine
	case errors.Is(err, queue.ErrStoreFull) && c.a.deferrable(&c.jobs[i]):
		// nothing was changed, and the overflow is elsewhere
		return pastEngine
	}
	return answered
}
