package admission

import (
	"context"
	"errors"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// Appender is a queue.Appender that asks the rules of other groups than a queue's own, which the engine does not ask.
// It asks one after the other before the job goes on. What a rule lets through is charged at once, and given back if
// another rule, or the queue itself, then does not take the job: take, then refund. docs/admission.md says what that
// means.
type Appender struct {
	a    *Admission
	next queue.Appender
}

var _ queue.Appender = (*Appender)(nil)

// NewAppender returns an Appender in front of next: an engine, or the overflow in front of one.
func NewAppender(a *Admission, next queue.Appender) *Appender { return &Appender{a, next} }

// Append implements queue.Appender. A job that one of these rules refuses is answered LimitReached. If the job may
// wait, and all rules that refuse it have the action defer, it goes on marked as limited (Job.Limited), for the engine
// to put it aside. In the answer, Rules has what these rules said before what the engine's did.
func (p *Appender) Append(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	checks := p.a.checkRules(ctx, jobs, others)
	if checks == nil {
		return p.next.Append(ctx, jobs)
	}
	var rest []queue.Job
	var at []int
	for i := range jobs {
		if checks.answers[i].Outcome == queue.Accepted {
			job := jobs[i]
			job.Limited = checks.limited[i]
			rest, at = append(rest, job), append(at, i)
		}
	}
	if len(rest) == 0 {
		return checks.answers, nil
	}
	got, err := p.next.Append(ctx, rest)
	var out []int
	for k, i := range at {
		answer := queue.Appended{Outcome: queue.Failed, ID: jobs[i].ID, Err: err} // nothing could be decided
		if len(got) == len(rest) {
			answer = got[k]
		}
		// one that is put aside by a rule is charged to none
		if _, _, limited := rules.Limited(answer.Rules); limited || !mayBeIn(&answer) {
			out = append(out, i)
		}
		answer.Rules = append(checks.answers[i].Rules, answer.Rules...)
		checks.answers[i] = answer
	}
	checks.back(ctx, out)
	return checks.answers, nil // what is wrong with any stands in its answer
}

// mayBeIn reports whether a job is in by this append, for all that is known.
func mayBeIn(a *queue.Appended) bool {
	return a.Outcome == queue.Accepted || a.Outcome == queue.SetAside ||
		a.Outcome == queue.Failed && errors.Is(a.Err, queue.ErrOutcomeUnknown)
}

// Pass asks the rules of the queues' own groups about jobs that go past the engine, to the overflow: each is let
// through (Accepted) or refused, and answered with what its rules said. What a rule refuses whose action is defer is
// let through, for that is where it would be put. Those that were let through, and then did not come in, are handed to
// back.
func (a *Admission) Pass(ctx context.Context, jobs []queue.Job) (answers []queue.Appended, back func(
	ctx context.Context, at []int,
),
) {
	checks := a.checkRules(ctx, jobs, own)
	if checks == nil {
		return nil, nil
	}
	return checks.answers, checks.back
}
