package queue

import (
	"time"

	"github.com/penstock/penstock/internal/cause"
)

// MaxBends is the maximum number of bends of a Forecast.
const MaxBends = 64

// Forecast is the departure curve of a queue if no more jobs are appended: how many jobs are left at each instant. It
// is linear between its bends.
type Forecast struct {
	// Bends begin with the present. The last one is where the queue is empty, or from where nothing leaves.
	Bends []Bend
	// Finish is when the last job leaves. It is zero if some jobs never leave; the last bend has the cause.
	Finish time.Time
	// Exact is whether arithmetic alone decides the curve.
	Exact bool
	// Estimated is whether the queue has more lanes than a Lineup names, or too many bends to follow all of them.
	Estimated bool
	// First and Last are when the first and the last of the jobs of ForecastRequest.Append leave; zero is never, or
	// without such jobs.
	First, Last time.Time
	// Lanes are when the lanes of the Lineup are empty, in its order; a zero time is never.
	Lanes []time.Time
}

// ForecastRequest says what to assume.
type ForecastRequest struct {
	// Spec is the spec to assume in place of the queue's own; nil is the queue's own. It must be valid.
	Spec   *Spec
	Append ForecastAppend
}

// ForecastAppend are jobs that are assumed to be appended now: Jobs into the queue, and Deferred onto the overflow.
type ForecastAppend struct {
	Lane           string
	State          LaneInfo // of the lane; needed if none of its jobs wait
	Jobs, Deferred int64
	Cost           int64 // of each; 0 is 1
}

// Bend is where a departure curve changes its slope.
type Bend struct {
	At        time.Time
	Remaining float64 // jobs left; fractions are between two departures
	Rate      float64 // jobs a second from here on
	// By is what decides the rate from here on; "" after the last job.
	By     cause.Cause
	Until  time.Time // when By is over, if it is known to end then
	Queue  string    // the parent, if it is the parent's pause, pace or quota
	Reason string    // the quota, or the reason of the pause or stop
	// Drained is a lane that is empty from here on, and by which the rate changes. It is an index of Lineup.Lanes, or
	// -1.
	Drained int
}

// Never reports whether some jobs never leave as things are.
func (f *Forecast) Never() bool { return f.Finish.IsZero() }
