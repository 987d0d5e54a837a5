package drain

import (
	"context"
	"time"

	"github.com/penstock/penstock/queue"
)

// Job is what a handler is given. It must not be changed.
type Job struct {
	queue.Reservation
	// Spec is that of the job's queue, of Reservation.Revision or later. Its other jobs share it.
	Spec *queue.Spec
	// Deadline is until when it may be tried again, by this process's clock; zero is for ever.
	Deadline time.Time
	// Span follows this attempt; nil unless it is traced.
	Span Span
}

// Last reports whether there will be no other try if this one fails now, to be tried again after that long.
func (j *Job) Last(after time.Duration) bool {
	return j.Attempt >= j.Spec.Retry.MaxAttempts || !j.Deadline.IsZero() &&
		time.Now().Add(after+settleMargin).After(j.Deadline)
}

// Handler does the work of a job. It is called from many goroutines, each time some tens of milliseconds before the
// departure, so that it can prepare: look up, dial, log in. Then it waits in the gate, and only behind the gate may it
// do what the receiver notices.
//
// What it returns decides what becomes of the job:
//
//	nil                 delivered
//	DeliveredThen(until, why)  delivered; nothing leaves the queue until then
//	ErrLate             given back: keeps its turn, spends no attempt
//	Permanent(err)      dead, with err as the reason
//	Throttled(until)    nothing leaves the queue until then; the job spends no attempt
//	Down(err)           the target is down; the job spends no attempt
//	Unknown(err)        it may have been sent; the queue's on_unknown decides
//	Unsent(err)         nothing was sent; given back
//	RetryAt(err, at)    tried again, not before at; dead at max_attempts
//	any other error     tried again after the queue's backoff; dead at max_attempts
//
// That holds whether or not the handler waited in the gate: one that cannot prepare need not, and spends an attempt all
// the same. But when the gate said ErrLate the job never started, and any error but those of Permanent and Unknown
// gives it back. A panic counts as any other error, also after ErrLate; behind the gate as Unknown, where the queue's
// on_unknown is hold or dead.
//
// ctx is cancelled when the lease is lost, or could not be extended in time, or at the end of the grace period of a
// drainer that stops (see context.Cause). What the handler returns after a lost lease is not settled; when the lease
// was only not extended, nil is. A job whose handler returns with the cancellation at the end of the grace period is
// given back; but behind the gate it counts as Unknown where the queue's on_unknown is hold or dead, for nobody knows
// how far it came. One that does says Unsent.
type Handler interface {
	Handle(ctx context.Context, job *Job, gate Gate) error
}

// Gate stands before the departure.
type Gate interface {
	// Wait blocks until the job may start and returns nil: start now, without
	// delay. ErrLate means that it must not start; ctx's cause that ctx ended first. It
	// may be called again, before the same work is begun anew on another
	// connection, say: then it only checks again that it is not too late.
	Wait(ctx context.Context) error
	// Closes is the last instant at which Wait can return nil for the first time. What is
	// being prepared for one job and will not be ready by then is worth finishing
	// only if another job can use it.
	Closes() time.Time
}

// HandlerFunc is a Handler that has nothing to prepare: the func is called at the
// departure.
type HandlerFunc func(ctx context.Context, job *Job) error

// Handle waits in the gate and calls f.
func (f HandlerFunc) Handle(ctx context.Context, job *Job, gate Gate) error {
	if err := gate.Wait(ctx); err != nil {
		return err
	}
	return f(ctx, job)
}
