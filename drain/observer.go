package drain

import (
	"time"

	"github.com/penstock/penstock/queue"
)

// Observer is told what happens in a drainer: metrics are made of it. Its methods
// are called from many goroutines, often, and in the way of the work: they must
// not block. Embed NoObserver to take only some.
type Observer interface {
	// Reserved: the engine was asked for at most max jobs of a partition and
	// answered with n after took, or with err.
	Reserved(partition, max, n int, took time.Duration, err error)
	// Lost: a backlogged queue could have had so many departures since anybody asked,
	// and did not. The engine counts them.
	Lost(queue string, slots int64)
	// Expired: the engine took back a lease that ran out, anybody's.
	Expired(queue string)
	// Departed: a job passed its gate, late after its departure. That is an upper bound:
	// the true lateness may be less by the time the grant took to arrive. It is told when
	// the handler has returned, or goes on though its window is over: until then it may find
	// that it was kept from starting, and the job is released as Late instead.
	Departed(job *Job, late time.Duration)
	// Returned: the handler returned, or panicked, and verdict is what will be
	// settled; whether a failure was the job's last, Settled tells. took is counted from
	// the gate, and 0 when the handler gave its answer without passing it. It is not
	// called for jobs that are given back or whose lease is lost.
	Returned(job *Job, verdict queue.Verdict, took time.Duration)
	// Released: a job is given back, by its handler or before it had one; Settled
	// follows.
	Released(queue string, why Reason)
	// Settled: the engine has accepted a settlement and put the job in state, or
	// found it stale (state is StateNone): the lease was lost before. A failure leaves
	// the job Scheduled, or Dead when it was the last attempt.
	Settled(queue string, verdict queue.Verdict, state queue.State)
	// Affected: what the answer to a job did to its queue, besides; Settled has been told. A Fail with the reason
	// queue.SlowReason is no answer: the attempt still goes on, after its queue's Circuit.Slow.
	Affected(s queue.Settlement, e queue.Effect)
	// Unsettled: a settlement was given up, because the engine could not be reached
	// for long or cannot carry it out. The job is delivered again when its lease has run out.
	Unsettled(queue string, verdict queue.Verdict, err error)
	// LeaseLost: a handler was told to stop because its lease no longer stands, or
	// could not be extended in time.
	LeaseLost(queue string)
	// Free: so many handlers are free.
	Free(handlers int)
}

// Reason is why a job was given back.
type Reason uint8

// The reasons.
const (
	Late        Reason = iota + 1 // its window was over before it could start, or before its handler did
	Stopping                      // the drainer stops and it had not started
	Interrupted                   // it had started, and the drainer's grace period ended
	NoHandler                     // a grant came for which there was no free handler any more, of all or of its app
	NoSpec                        // its queue's spec could not be read
	Handlers                      // the handler asked for it while its window was open
)

func (r Reason) String() string {
	return [...]string{"", "late", "stopping", "interrupted", "no_handler", "no_spec", "handler"}[r]
}

// NoObserver is an Observer that does nothing.
type NoObserver struct{}

var _ Observer = NoObserver{}

// Reserved does nothing.
func (NoObserver) Reserved(_, _, _ int, _ time.Duration, _ error) {}

// Lost does nothing.
func (NoObserver) Lost(string, int64) {}

// Expired does nothing.
func (NoObserver) Expired(string) {}

// Departed does nothing.
func (NoObserver) Departed(*Job, time.Duration) {}

// Returned does nothing.
func (NoObserver) Returned(*Job, queue.Verdict, time.Duration) {}

// Released does nothing.
func (NoObserver) Released(string, Reason) {}

// Settled does nothing.
func (NoObserver) Settled(string, queue.Verdict, queue.State) {}

// Affected does nothing.
func (NoObserver) Affected(queue.Settlement, queue.Effect) {}

// Unsettled does nothing.
func (NoObserver) Unsettled(string, queue.Verdict, error) {}

// LeaseLost does nothing.
func (NoObserver) LeaseLost(string) {}

// Free does nothing.
func (NoObserver) Free(int) {}
