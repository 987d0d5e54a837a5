package queue

import (
	"time"

	"github.com/penstock/penstock/leaky"
)

// Settled is the answer to one settlement.
type Settled struct {
	// Stale means that the lease was lost before: it ran out, the queue was deleted, or the lease was settled
	// differently. Nothing was changed.
	Stale bool
	// State is the job's state after the settlement: Delivered, Dead, Scheduled, Held or Waiting. Zero if Stale.
	State State
	// Effect is the effect on the queue. A repeated settlement does not report it again.
	Effect Effect
	Err    error
}

// Extended is the answer to the extension of one lease.
type Extended struct {
	// Left is how long the lease still lasts, or 0 if it is lost and the work should stop. It counts from the engine's
	// decision: a caller that counts from before the call never trusts a lease that has run out.
	Left time.Duration
	// Effect is what a failure that this call counted did to the queue. It is reported once.
	Effect Effect
	Err    error
}

// Effect is what a receiver's answer, or its absence, did to the queue. The zero Effect is nothing.
type Effect struct {
	// Stopped is how long departures are put off: of the lane only, if the settlement said so.
	Stopped time.Duration
	Opened  bool // the circuit opened
	Closed  bool // the circuit closed
	// From and To are the adapted rates before and after; they are equal if the rate did not change.
	From, To leaky.Rate
}
