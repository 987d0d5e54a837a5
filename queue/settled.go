package queue

import (
	"time"

	"github.com/penstock/penstock/leaky"
)

// Settled is the answer to one settlement.
type Settled struct {
	// Stale means that the lease was lost before: it ran out, the queue was
	// deleted, or it was settled in another way. Nothing was changed.
	Stale bool
	// State is where this settlement put the job: Delivered, Dead, Scheduled, Held or
	// Waiting. Zero when Stale.
	State State
	// Effect is what it did to the queue besides; not told again when the same settlement is
	// repeated.
	Effect Effect
	Err    error
}

// Extended is the answer to the extension of one lease.
type Extended struct {
	// Left is how long the lease still lasts, 0 where it is lost and the work should stop. It is counted from when the
	// engine decided: whoever counts from before the call believes in no lease that ran out.
	Left time.Duration
	// Effect is what a failure that the call counted did to the queue; told once.
	Effect Effect
	Err    error
}

// Effect is what an answer, or the want of one, did to its queue. The zero Effect is nothing.
type Effect struct {
	// Stopped is for how long departures are put off by it; the lane's alone, if
	// the settlement said so.
	Stopped time.Duration
	Opened  bool // the circuit opened
	Closed  bool // the circuit closed
	// From and To are the adapted rates before and after; equal when it did not change.
	From, To leaky.Rate
}
