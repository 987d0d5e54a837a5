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

// put stores what goes to the overflow, in the order in which it was handed in, and
// answers for it.
func (e *appendCall) put() {
	var items []Item
	var at []int
	for i, w := range e.routes {
		if w == toEngine || w == answered {
			continue
		}
		job := e.jobs[i]
		job.Normalize()
		item := Item{Job: job, Ticket: e.answers[i].Ticket, At: e.answers[i].At}
		if w == pastEngine || w == maybeInEngine {
			if e.refused(i, &job) {
				continue
			}
			// Judged by the clock here, for want of the engine's.
			item.Ticket, item.At = "", time.Now()
		}
		items, at = append(items, item), append(at, i)
	}
	if items, at = e.askGate(items, at); len(items) == 0 {
		return
	}
	var back []int                  // those to withdraw
	untold := map[string]struct{}{} // queues of which the engine has to hear
	for k, err := range e.a.stream.Put(e.ctx, items) {
		i := at[k]
		said := e.checked(i, err)
		switch {
		case err == nil:
			if e.stored(i, items[k].At, said) {
				untold[e.jobs[i].Queue] = struct{}{}
			}
		case e.routes[i] == setAside && !errors.Is(err, queue.ErrOutcomeUnknown):
			e.answers[i].Err = err
			back = append(back, i)
		default:
			e.notStored(i, err)
		}
	}
	e.withdraw(back)
	e.giveBack()
	e.tell(untold)
}

// tell is done before anybody is answered: whoever has his answer may send the next job,
// which must not overtake this one.
func (e *appendCall) tell(untold map[string]struct{}) {
	if len(untold) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), e.a.patience)
	defer cancel()
	for name := range untold {
		e.a.follow(ctx, name)
	}
}

// refused answers for a job that cannot go past the engine.
func (e *appendCall) refused(i int, job *queue.Job) bool {
	err := e.answers[i].Err // the engine's, if it was asked
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
	} else if e.a.deferrable(job) {
		if job.ExpiresAt.IsZero() || job.ExpiresAt.After(now) {
			return false
		}
		answer.Outcome, answer.Err = queue.Lapsed, nil
	}
	e.answers[i] = answer
	return true
}

// stored answers for a job that NATS has acknowledged, and reports whether the engine
// has to be told of it.
func (e *appendCall) stored(i int, at time.Time, said []rules.Ruling) (untold bool) {
	answer := &e.answers[i]
	switch e.routes[i] {
	case setAside:
		answer.Outcome = queue.Accepted
	case pastEngine, maybeInEngine:
		untold = !e.a.outages.stray(e.jobs[i].Queue)
		*answer = queue.Appended{Outcome: queue.Accepted, ID: e.jobs[i].ID, State: queue.Deferred, At: at, Rules: said}
	}
	answer.Ticket = "" // nobody else's business
	return untold
}

// notStored answers for a job that NATS has not acknowledged, and that is not
// withdrawn.
func (e *appendCall) notStored(i int, err error) {
	answer := queue.Appended{Outcome: queue.Failed, ID: e.jobs[i].ID, Err: err}
	switch {
	case errors.Is(err, queue.ErrOutcomeUnknown):
	case e.routes[i] == maybeInEngine: // the engine may have it
		answer.Err = e.answers[i].Err
	case e.routes[i] == storeAgain: // it may have been stored before
		answer.Err = fmt.Errorf("%w: it is recorded as deferred, and could not be stored once more: %w",
			queue.ErrOutcomeUnknown, err)
	case errors.Is(err, ErrFull):
		answer.Outcome, answer.RetryAfter = queue.OverflowFull, max(retryFull, e.a.specs.opens(e.jobs[i].Queue))
	case errors.Is(err, ErrTooLarge): // for the overflow; the engine may take it when it is back
		answer.Err = fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
	}
	e.answers[i] = answer
}

// withdraw tells the engine which of the jobs that it set aside could not be stored, and
// answers for them. Should the engine not hear it: the records are given up in time, and
// a job that is sent again is stored again.
func (e *appendCall) withdraw(back []int) {
	if len(back) == 0 {
		return
	}
	w := make([]queue.Ticketed, len(back))
	for k, i := range back {
		w[k] = queue.Ticketed{Queue: e.jobs[i].Queue, ID: e.answers[i].ID, Ticket: e.answers[i].Ticket}
	}
	// The caller may have left; what he left behind must not stay.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), withdrawTimeout)
	defer cancel()
	after, err := e.a.engine.Withdraw(ctx, w)
	if err != nil {
		e.a.log.Warn("jobs that could not be stored on the overflow were not withdrawn; they are given up in time",
			"jobs", len(w), "error", err)
	}
	for k, i := range back {
		promise := retryFull
		if err == nil && len(after) == len(back) {
			promise = after[k]
		}
		e.answers[i] = e.a.sentBack(&e.jobs[i], e.answers[i].Err, promise)
	}
}

// sentBack is the answer to a job that is neither in the queue nor on the overflow.
func (a *Appender) sentBack(job *queue.Job, err error, promise time.Duration) queue.Appended {
	answer := queue.Appended{Outcome: queue.Failed, ID: job.ID, Err: err}
	switch {
	case errors.Is(err, ErrFull):
		answer.Outcome, answer.RetryAfter = queue.OverflowFull, max(promise, a.specs.opens(job.Queue))
	case errors.Is(err, ErrTooLarge):
		answer.Outcome, answer.Err = queue.Invalid, &invalid.Error{
			Field: "payload", Reason: fmt.Sprintf("there is no room in the queue, and it is %v: raise max_payload of "+
				"NATS, or send it again when there is room", err),
		}
	}
	return answer
}
