package pull

import "time"

// Observer receives the events of a dispatcher, for metrics. Its methods are called from many goroutines and must not
// block.
type Observer interface {
	// Waiting: the number of waiting requests.
	Waiting(requests int)
	// Handed: a job's answer was written, at most late after its departure.
	Handed(queue string, late time.Duration)
	// Released: a job was given back instead.
	Released(queue string, why Reason)
	// Lost: a queue with a backlog lost that many departures since the last call, because no client asked for them.
	Lost(queue string, slots int64)
	// Expired: the engine took back a lease that ran out, of any queue.
	Expired(queue string)
}

// Reason is why a job was given back.
type Reason uint8

// The reasons.
const (
	Late      Reason = iota + 1 // its window was over before it could be handed over
	Unclaimed                   // no request waited for it any more
	Gone                        // the client hung up before the answer was written
	Stopping                    // the dispatcher stops
)

func (r Reason) String() string { return [...]string{"", "late", "unclaimed", "gone", "stopping"}[r] }

type noObserver struct{}

func (noObserver) Waiting(int)                  {}
func (noObserver) Handed(string, time.Duration) {}
func (noObserver) Released(string, Reason)      {}
func (noObserver) Lost(string, int64)           {}
func (noObserver) Expired(string)               {}
