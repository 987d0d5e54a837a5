package drain

import (
	"time"

	"github.com/penstock/penstock/queue"
)

// Observer receives the events of a drainer, for metrics. Its methods are called often, from many goroutines, in the
// path of the work: they must not block. Embed NoObserver to implement only some of them.
type Observer interface {
	// Reserved: the engine was asked for at most max jobs of a partition, and answered with n after took, or with err.
	Reserved(partition, max, n int, took time.Duration, err error)
	// Lost: a queue with a backlog lost that many departures since the last call, because no client asked for them. The
	// engine counts them.
	Lost(queue string, slots int64)
	// Expired: the engine took back a lease that ran out, of any client.
	Expired(queue string)
	// Departed: a job passed its gate, late after its departure. That is an upper bound: the true lateness may be less by
	// the uncertainty about the engine's clock. Departed is called when the handler has returned, or goes on although the
	// window is over. Until then the handler may still find out that it was too late, and the job is released as Late.
	Departed(job *Job, late time.Duration)
	// Returned: the handler returned or panicked, and verdict will be settled; Settled then says whether a failure was the
	// job's last. took is measured from the gate, and 0 if the handler did not pass the gate. Returned is not called for
	// jobs that are given back or whose lease is lost.
	Returned(job *Job, verdict queue.Verdict, took time.Duration)
	// Released: a job is given back, by its handler or before it had a handler. Settled follows.
	Released(queue string, why Reason)
	// Settled: the engine accepted a settlement and put the job in state, or found it stale (StateNone), because the lease
	// was lost before. A failed job is Scheduled, or Dead after its last attempt.
	Settled(queue string, verdict queue.Verdict, state queue.State)
	// Affected: a settlement also changed its queue, as e says. It is called after Settled. A Fail with the reason
	// queue.SlowReason is not a settlement: the attempt still goes on, longer than its queue's Circuit.Slow.
	Affected(s queue.Settlement, e queue.Effect)
	// ActualIgnored: an actual cost of a job is not charged, because of a fault in what states it: UncountedActual, or a
	// word of the job's handler. What was charged at the departure stands.
	ActualIgnored(queue, fault string)
	// Unsettled: a settlement was given up, because the engine was unreachable for too long or cannot carry it out. The
	// job is delivered again when its lease has run out.
	Unsettled(queue string, verdict queue.Verdict, err error)
	// LeaseLost: a handler was canceled because its lease is no longer valid, or could not be extended in time.
	LeaseLost(queue string)
	// Free: the number of free handlers.
	Free(handlers int)
}

// UncountedActual is the fault of an actual cost in a unit that no limit counts.
const UncountedActual = "uncounted"

// Reason is why a job was given back.
type Reason uint8

// The reasons.
const (
	Late        Reason = iota + 1 // its window was over before it could start, or before its handler did
	Stopping                      // the drainer stops, and the job did not start in time
	Interrupted                   // the drainer's grace period ended while its handler ran
	NoHandler                     // granted although no handler was free, in total or of its app
	NoSpec                        // its queue's spec could not be read
	Handlers                      // its handler gave it back while its window was open
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

// ActualIgnored does nothing.
func (NoObserver) ActualIgnored(string, string) {}

// Unsettled does nothing.
func (NoObserver) Unsettled(string, queue.Verdict, error) {}

// LeaseLost does nothing.
func (NoObserver) LeaseLost(string) {}

// Free does nothing.
func (NoObserver) Free(int) {}
