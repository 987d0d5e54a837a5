package drain

import (
	"context"
	"maps"
	"time"

	"github.com/penstock/penstock/queue"
)

// Job is the job that a handler gets. Handlers must not change it.
type Job struct {
	queue.Reservation
	// Spec is the spec of the job's queue, of Reservation.Revision or later. It is shared with the queue's other jobs.
	Spec *queue.Spec
	// Deadline is the instant, on this process's clock, after which the job is not retried. Zero means never.
	Deadline time.Time
	// Span traces this delivery; nil if it is not traced.
	Span Span

	actual    map[string]int64
	ignored   []string // why other actual costs are not charged
	budget    queue.Budget
	budgetErr error
}

// ReportBudget records the receiver's remaining budget. A queue with learn adjusts its rate to it, even if the job
// fails. An error says why a stated budget cannot be used, and is logged now and then. The last report counts.
func (j *Job) ReportBudget(b queue.Budget, err error) {
	b.Remaining, b.Reset = max(0, b.Remaining), min(b.Reset, queue.MaxReset)
	j.budget, j.budgetErr = b, err
}

// ReportActual records what the job has used, by unit, such as tokens. It replaces what was charged at the departure,
// even if the job fails; units left out keep their charge. The last report counts. Errors: an *invalid.Error if a
// number or a name is unusable; nothing is recorded then. Costs in units that no limit of the queue has are logged, not
// charged.
func (j *Job) ReportActual(costs map[string]int64) error {
	if err := queue.ValidateCosts("actual", costs); err != nil {
		return err
	}
	j.actual = maps.Clone(costs)
	return nil
}

// IgnoreActual records that the receiver's statement of an actual cost cannot be used, and why in a word, for metrics.
// What was charged at the departure stands.
func (j *Job) IgnoreActual(fault string) { j.ignored = append(j.ignored, fault) }

// Last reports whether this is the job's last attempt if it fails now and would be retried after the given time.
func (j *Job) Last(after time.Duration) bool {
	return j.Attempt >= j.Spec.Retry.MaxAttempts || !j.Deadline.IsZero() &&
		time.Now().Add(after+settleMargin).After(j.Deadline)
}

// Handler does the work of a job. It is called from many goroutines, each time some tens of milliseconds before the
// departure, so that it can prepare: look up, dial, log in. Then it waits in the gate. Only behind the gate may it do
// anything that the receiver notices.
//
// The result decides what happens to the job:
//
//	nil                 delivered
//	DeliveredThen(until, why)  delivered; nothing leaves the queue until then
//	ErrLate             given back: keeps its turn, spends no attempt
//	Permanent(err)      dead, with err as the reason
//	Throttled(until)    nothing leaves the queue until then; the job spends no attempt
//	Down(err)           the target is down; the job spends no attempt
//	Unknown(err)        it may have been sent; the queue's on_unknown decides
//	Unsent(err)         nothing was sent; given back
//	RetryAt(err, at)    retried, not before at; dead at max_attempts
//	any other error     retried after the queue's backoff; dead at max_attempts
//
// This holds whether or not the handler waited in the gate: a handler that has nothing to prepare need not wait, and
// spends an attempt all the same. If the gate returned ErrLate, however, the job has not started, and any error except
// Permanent and Unknown gives it back. A panic counts as any other error, even after ErrLate. Behind the gate it counts
// as Unknown if the queue's on_unknown is hold or dead.
//
// ctx is canceled when the lease is lost or could not be extended in time, and when the grace period of a stopping
// drainer ends (see context.Cause). After a lost lease nothing is settled. If the lease was only not extended, success
// is settled. A job whose handler returns because the grace period ended is given back. If the handler was behind the
// gate and the queue's on_unknown is hold or dead, it counts as Unknown, because the job may have been sent; a handler
// that knows better returns Unsent.
type Handler interface {
	Handle(ctx context.Context, job *Job, gate Gate) error
}

// Gate stands before the departure.
type Gate interface {
	// Wait blocks until the job may start and returns nil: start now, without delay. ErrLate means that the job must not
	// start. If ctx ends first, Wait returns its cause. Wait may be called again, for example before the same request is
	// sent on another connection: then it only checks that it is not too late.
	Wait(ctx context.Context) error
	// Closes returns the last instant at which a first Wait can return nil. Preparations that would take longer are
	// worth finishing only if another job can use them.
	Closes() time.Time
}

// HandlerFunc is a Handler with nothing to prepare: the function is called at the departure.
type HandlerFunc func(ctx context.Context, job *Job) error

// Handle waits in the gate and calls f.
func (f HandlerFunc) Handle(ctx context.Context, job *Job, gate Gate) error {
	if err := gate.Wait(ctx); err != nil {
		return err
	}
	return f(ctx, job)
}
