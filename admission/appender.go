package admission

import (
	"context"
	"errors"
	"slices"

	"github.com/penstock/penstock/internal/forward"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// Appender is a queue.Appender that asks the rules of other groups than a queue's own, which the engine does not ask.
// It asks them one after the other before it passes a job on. An allowed take is charged at once, and given back if
// another rule or the queue then refuses the job: take, then refund (see docs/admission.md).
type Appender struct {
	a    *Admission
	next queue.Appender
}

var _ queue.Appender = (*Appender)(nil)

// NewAppender returns an Appender in front of next: an engine, or the overflow in front of an engine.
func NewAppender(a *Admission, next queue.Appender) *Appender { return &Appender{a, next} }

// Append implements queue.Appender. A job refused by one of these rules answers LimitReached. If the job may wait and
// all rules that refuse it have the action defer, it is passed on as limited (Job.Limited). The engine then puts it
// aside. In the answer, Rules has the rulings of these rules before the engine's.
func (p *Appender) Append(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	c := p.a.checkRules(ctx, jobs, others)
	if c == nil {
		return p.next.Append(ctx, jobs)
	}
	jobs = slices.Clone(jobs)
	answers := make([]queue.Appended, len(jobs))
	var at []int
	for i := range jobs {
		if c.answers[i].Outcome == queue.Accepted {
			jobs[i].Limited = c.limited[i]
			at = append(at, i)
		}
	}
	forward.Jobs(ctx, p.next.Append, jobs, at, answers)
	var refused []int
	for _, i := range at {
		answer := &answers[i]
		// A job that a rule has put aside is charged to no rule.
		if _, _, limited := rules.Limited(answer.Rules); limited || !mayBeIn(answer) {
			refused = append(refused, i)
		}
		answer.Rules = append(c.answers[i].Rules, answer.Rules...)
		c.answers[i] = *answer
	}
	c.giveBack(ctx, refused)
	return c.answers, nil
}

// mayBeIn reports whether this append has, or may have, brought the job in.
func mayBeIn(a *queue.Appended) bool {
	return a.Outcome == queue.Accepted || a.Outcome == queue.SetAside ||
		a.Outcome == queue.Failed && errors.Is(a.Err, queue.ErrOutcomeUnknown)
}

// Pass asks the rules of the queues' own groups about jobs that bypass the engine to the overflow. It allows a job
// (Accepted) or refuses it, and each answer has the rulings. Jobs refused by rules with the action defer are allowed,
// because the overflow is where they would go. The caller passes the indexes of allowed jobs that did not come in to
// giveBack.
func (a *Admission) Pass(
	ctx context.Context, jobs []queue.Job,
) (answers []queue.Appended, giveBack func(ctx context.Context, at []int)) {
	c := a.checkRules(ctx, jobs, own)
	if c == nil {
		return nil, nil
	}
	return c.answers, c.giveBack
}
