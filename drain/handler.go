package drain

import (
	"context"
	"time"

	"github.com/penstock/penstock/queue"
)

// Job is what a handler is given. It must not be changed.
type Job struct {
	queue.Reservation
	// Spec is that of the job's queue, of Reservation.Revision or later.
	Spec queue.Spec
}

// Handler does the work of a job. It is called from many goroutines, each time
// some tens of milliseconds before the departure, so that it can prepare: look up,
// dial, log in. Then it waits in the gate, and only behind the gate may it do what
// the receiver notices.
//
// What it returns decides what becomes of the job:
//
//	nil                 delivered
//	ErrLate             given back: keeps its turn, spends no attempt
//	Permanent(err)      dead, with err as the reason
//	any other error     tried again after the queue's backoff; dead at max_attempts
//
// An error of any kind but Permanent from a handler whose gate said ErrLate, and
// which therefore never started, gives the job back too. A panic counts as an
// error. ctx is cancelled when the lease is lost, or at the end of the grace period of
// a drainer that stops (see context.Cause); what the handler returns after a lost
// lease is not settled, and a job interrupted by the end of the grace period is given back.
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
