// Package quote predicts what would happen to jobs: to new ones if they were appended now, and to the waiting ones. It
// says when they would leave, at the present rate and at another one.
package quote

import (
	"math"
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/machine"
)

// MaxJobs is the maximum number of jobs in a quote, more than a queue and its overflow can hold.
const MaxJobs = 1_000_000_000

// Request asks what would happen to jobs if they were appended now, and what another rate would change.
type Request struct {
	Jobs int64 // may be 0 if Rate is set: quote the present backlog only
	Cost int64 // of each job; 0 means 1
	Lane string
	// Rate is the other rate, or nil.
	Rate *leaky.Rate
}

// Quote is the answer. It assumes that no other jobs are appended, that deliveries succeed, and that no deadline
// passes.
type Quote struct {
	// Fit, Deferred and Refused are how many jobs would enter the queue, go to the overflow, or be refused as
	// RefusedAs: Full, LaneFull or OverflowFull.
	Fit, Deferred, Refused int64
	RefusedAs              queue.AppendOutcome
	// Paused is whether the queue or its parent is paused, and Until when the pause ends; zero if it has no end.
	Paused bool
	Until  time.Time
	Now    Dates
	// Then are the dates at the other rate, or nil.
	Then *Dates
}

// Dates are when jobs would leave.
type Dates struct {
	Rate leaky.Rate
	// First and Last are the departures of the accepted jobs; zero if all are refused or they never leave.
	First, Last time.Time
	// Drained is when the last job that is now in the queue or deferred would leave; zero if there are none or some
	// never leave.
	Drained time.Time
	// Never is what keeps jobs from ever leaving as things are; "" if all leave.
	Never cause.Cause
	// Exact is whether arithmetic alone decides the dates.
	Exact bool
}

// Validate checks a request. Its error is an *invalid.Error.
func (r *Request) Validate() error {
	if r.Jobs != 0 || r.Rate == nil {
		if r.Jobs < 1 || r.Jobs > MaxJobs {
			return outOf("jobs", r.Jobs, MaxJobs)
		}
	}
	if r.Cost < 0 || r.Cost > leaky.MaxCost {
		return outOf("cost", r.Cost, leaky.MaxCost)
	}
	return queue.ValidateLane(r.Lane)
}

func outOf(field string, v, most int64) error {
	return invalid.Errorf(field, "", "is %d, must be from 1 to %d", v, most)
}

// Quote returns the quote for a queue and the lane that r names, as returned by Specs.Lane. Its error is an
// *invalid.Error.
func (r Request) Quote(l *queue.Lineup, lane *queue.LaneInfo) (Quote, error) {
	if err := r.Validate(); err != nil {
		return Quote{}, err
	}
	q := Quote{}
	q.Paused, q.Until = stops(&l.Info)
	q.divide(&r, &l.Info, lane)
	var err error
	if q.Now, err = q.dates(&r, l, lane, nil); err != nil {
		return Quote{}, err
	}
	q.Now.Rate = l.Rate
	if r.Rate != nil {
		spec := l.Spec
		spec.Rate, spec.Adapt, spec.Learn = *r.Rate, queue.Adapt{}, "" // the rate in effect, whatever it may adapt to
		then, err := q.dates(&r, l, lane, &spec)
		if err != nil {
			return Quote{}, err
		}
		then.Rate = *r.Rate
		q.Then = &then
	}
	return q, nil
}

// divide computes how many jobs would be accepted. Like Append, it asks the lane, the queue and the overflow in this
// order.
func (q *Quote) divide(r *Request, i *queue.Info, lane *queue.LaneInfo) {
	defers := i.Spec.Overflow == queue.Defer
	room := i.Spec.Capacity - i.Size()
	switch {
	case i.Deferred > 0 && defers: // they line up behind the backlog
		room = 0
	case i.Deferred > 0:
		room = min(room, max(1, i.Spec.Capacity-i.Spec.Mark())-(i.Size()-i.Back))
	}
	inLane := int64(math.MaxInt64)
	if c := i.Spec.Lanes.Of(r.Lane).Capacity; c > 0 {
		inLane = c - lane.Size
	}
	q.Fit = max(0, min(r.Jobs, room, inLane))
	rest := r.Jobs - q.Fit
	switch {
	case rest == 0:
		return
	case q.Fit >= inLane:
		q.RefusedAs = queue.LaneFull
	case !defers:
		q.RefusedAs = queue.Full
	default:
		q.Deferred = max(0, min(rest, i.Spec.Deferred.MaxJobs-i.Deferred))
		if q.Deferred < rest {
			q.RefusedAs = queue.OverflowFull
		}
	}
	q.Refused = rest - q.Deferred
}

// dates returns the dates under a spec; nil is the present one.
func (q *Quote) dates(
	r *Request, l *queue.Lineup, lane *queue.LaneInfo, spec *queue.Spec,
) (d Dates, err error) {
	f, err := machine.Forecast(l, queue.ForecastRequest{Spec: spec})
	if err != nil {
		return d, err
	}
	if f.Bends[0].Remaining > 0 {
		d.Drained = f.Finish
	}
	if q.Fit+q.Deferred > 0 {
		f, err = machine.Forecast(l, queue.ForecastRequest{Spec: spec, Append: queue.ForecastAppend{
			Lane: r.Lane, State: *lane, Jobs: q.Fit, Deferred: q.Deferred, Cost: r.Cost,
		}})
		d.First, d.Last = f.First, f.Last
	}
	if f.Never() {
		d.Never = f.Bends[len(f.Bends)-1].By
	}
	d.Exact = f.Exact
	return d, err
}

// stops reports whether the queue or its parent is paused, and until when, if that is known.
func stops(i *queue.Info) (paused bool, until time.Time) {
	all := []*queue.Pause{&i.Pause}
	if i.Parent != nil {
		all = append(all, &i.Parent.Pause)
	}
	known := true
	for _, p := range all {
		if p.On() {
			paused, known = true, known && !p.Until.IsZero()
			if p.Until.After(until) {
				until = p.Until
			}
		}
	}
	if !known {
		return true, time.Time{}
	}
	return paused, until
}
