package deferred

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/rules"
)

// put stores the jobs that go to the overflow, in the order of the call, and answers them.
func (c *appendCall) put() {
	var items []Item
	var at []int
	for i, way := range c.routes {
		if way == toEngine || way == answered {
			continue
		}
		job := c.jobs[i]
		job.Normalize()
		item := Item{Job: job, Ticket: c.answers[i].Ticket, At: c.answers[i].At}
		if way == pastEngine || way == maybeInEngine {
			if c.refused(i, &job) {
				continue
			}
			// There is only this machine's clock.
			item.Ticket, item.At = "", time.Now()
		}
		items, at = append(items, item), append(at, i)
	}
	if items, at = c.checkRules(items, at); len(items) == 0 {
		return
	}
	var back []int                  // jobs to withdraw
	untold := map[string]struct{}{} // queues with strays that the engine must learn of
	for k, err := range c.a.stream.Put(c.ctx, items) {
		i := at[k]
		rulings := c.rulings(i, err)
		switch {
		case err == nil:
			if c.stored(i, items[k].At, rulings) {
				untold[c.jobs[i].Queue] = struct{}{}
			}
		case c.routes[i] == setAside && !errors.Is(err, queue.ErrOutcomeUnknown):
			c.answers[i].Err = err
			back = append(back, i)
		default:
			c.notStored(i, err)
		}
	}
	c.withdraw(back)
	c.giveBack()
	c.announce(untold)
}

// announce announces strays before the call is answered: then the caller may send the next job, which must not overtake
// this one.
func (c *appendCall) announce(untold map[string]struct{}) {
	if len(untold) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), c.a.patience)
	defer cancel()
	for name := range untold {
		c.a.follow(ctx, name)
	}
}

// refused answers a job if it cannot bypass the engine, and reports whether it did.
func (c *appendCall) refused(i int, job *queue.Job) bool {
	err := c.answers[i].Err // the engine's error, if it was asked
	if err == nil {
		err = fmt.Errorf("%w: the engine does not answer", queue.ErrUnavailable)
	}
	answer := queue.Appended{Outcome: queue.Failed, ID: job.ID, Err: err}
	now := time.Now()
	bad := job.Validate()
	if bad == nil {
		bad = job.ValidateAhead(now)
	}
	if bad != nil {
		answer.Outcome, answer.Err = queue.Invalid, bad
	} else if c.a.deferrable(job) {
		if job.ExpiresAt.IsZero() || job.ExpiresAt.After(now) {
			return false
		}
		answer.Outcome, answer.Err = queue.Lapsed, nil
	}
	c.answers[i] = answer
	return true
}

// stored answers a job that NATS has acknowledged, and reports whether the engine must learn of it.
func (c *appendCall) stored(i int, at time.Time, rulings []rules.Ruling) (untold bool) {
	answer := &c.answers[i]
	switch c.routes[i] {
	case setAside:
		answer.Outcome = queue.Accepted
	case pastEngine, maybeInEngine:
		untold = !c.a.outages.stray(c.jobs[i].Queue)
		*answer = queue.Appended{Outcome: queue.Accepted, ID: c.jobs[i].ID, State: queue.Deferred, At: at, Rules: rulings}
	}
	answer.Ticket = "" // internal
	return untold
}

// notStored answers a job that NATS has not acknowledged and that is not withdrawn.
func (c *appendCall) notStored(i int, err error) {
	answer := queue.Appended{Outcome: queue.Failed, ID: c.jobs[i].ID, Err: err}
	switch {
	case errors.Is(err, queue.ErrOutcomeUnknown):
	case c.routes[i] == maybeInEngine: // the engine may have it
		answer.Err = c.answers[i].Err
	case c.routes[i] == storeAgain: // it may have been stored before
		answer.Err = fmt.Errorf("%w: the job is recorded as deferred, but could not be stored again: %w",
			queue.ErrOutcomeUnknown, err)
	case errors.Is(err, ErrFull):
		answer.Outcome, answer.RetryAfter = queue.OverflowFull, max(retryFull, c.a.specs.opens(c.jobs[i].Queue))
	case errors.Is(err, ErrTooLarge): // the engine may accept it when it is back
		answer.Err = fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
	}
	c.answers[i] = answer
}

// withdraw withdraws jobs that the engine set aside but that could not be stored, and answers them. If the engine
// cannot be reached, it gives their records up in time, and stores a job again that is sent again.
func (c *appendCall) withdraw(back []int) {
	if len(back) == 0 {
		return
	}
	w := make([]queue.Ticketed, len(back))
	for k, i := range back {
		w[k] = queue.Ticketed{Queue: c.jobs[i].Queue, ID: c.answers[i].ID, Ticket: c.answers[i].Ticket}
	}
	// The caller may have left; the records must not stay.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), withdrawTimeout)
	defer cancel()
	after, err := c.a.engine.Withdraw(ctx, w)
	if err != nil {
		c.a.log.Warn("withdrawing jobs that could not be stored on the overflow failed; the engine gives them up in time",
			"jobs", len(w), "error", err)
	}
	for k, i := range back {
		promise := retryFull
		if err == nil && len(after) == len(back) {
			promise = after[k]
		}
		c.answers[i] = c.a.sentBack(&c.jobs[i], c.answers[i].Err, promise)
	}
}

// sentBack returns the answer for a job that is neither in the queue nor on the overflow.
func (a *Appender) sentBack(job *queue.Job, err error, promise time.Duration) queue.Appended {
	answer := queue.Appended{Outcome: queue.Failed, ID: job.ID, Err: err}
	switch {
	case errors.Is(err, ErrFull):
		answer.Outcome, answer.RetryAfter = queue.OverflowFull, max(promise, a.specs.opens(job.Queue))
	case errors.Is(err, ErrTooLarge):
		answer.Outcome, answer.Err = queue.Invalid, &invalid.Error{
			Field: "payload", Reason: fmt.Sprintf("the queue has no room, and the job is %v: raise max_payload of NATS, or "+
				"send the job again when there is room", err),
		}
	}
	return answer
}
