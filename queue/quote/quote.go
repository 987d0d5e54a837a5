// Package quote predicts what would happen to jobs: to new ones if they were appended now, and to the waiting ones. It
// says when they would leave, at the present rate and at another one.
package quote

import (
	"math"
	"time"

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

// Quote is the answer. It is an estimate by the pace: it assumes that no other jobs are appended, none come back, and
// no deadline passes. Jobs in flight or scheduled take up room but no time.
type Quote struct {
	// Fit, Deferred and Refused are how many jobs would enter the queue, go to the overflow, or be refused as
	// RefusedAs: Full, LaneFull or OverflowFull.
	Fit, Deferred, Refused int64
	RefusedAs              queue.AppendOutcome
	// Paused is whether the queue is paused. The quote then assumes that it resumes at Until, or now if Until is zero.
	Paused bool
	Until  time.Time
	Now    Forecast
	// Then is the forecast at the other rate, or nil.
	Then *Forecast
}

// Forecast says when jobs would leave.
type Forecast struct {
	Rate leaky.Rate
	// First and Last are the departures of the accepted jobs; zero if all are refused.
	First, Last time.Time
	// Drained is when the last job that now waits or is deferred would leave; zero if there are none. The rates of
	// lanes may delay it.
	Drained time.Time
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
func (r Request) Quote(i *queue.Info, lane *queue.LaneInfo) (Quote, error) {
	if err := r.Validate(); err != nil {
		return Quote{}, err
	}
	r.Cost = max(1, r.Cost)
	q := Quote{}
	q.Paused, q.Until = stops(i)
	q.divide(&r, i, lane)
	out, err := machine.NewRehearsal(i, r.Cost, nil)
	if err != nil {
		return Quote{}, err
	}
	q.Now = q.forecast(&r, i, lane, out)
	q.Now.Rate = i.Rate
	if r.Rate != nil {
		if out, err = machine.NewRehearsal(i, r.Cost, r.Rate); err != nil {
			return Quote{}, err
		}
		then := q.forecast(&r, i, lane, out)
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

// forecast applies the engines' rule for ETAs. No sum or product comes near 2^63: a queue or its overflow has at most
// 10^8 jobs, none costs more than 10^3, and at most 10^3 queues take turns.
func (q *Quote) forecast(r *Request, i *queue.Info, lane *queue.LaneInfo, out *machine.Rehearsal) (f Forecast) {
	deferred := max(i.DeferredCost, i.Deferred)
	all := i.Ahead + deferred
	switch {
	case i.Deferred > 0:
		f.Drained = out.ETA(max(0, all-1), deferred-1, 0).Time()
	case i.Waiting > 0:
		f.Drained = out.ETA(max(0, all-1), 0, -1).Time()
	}
	taken := q.Fit + q.Deferred
	if taken == 0 {
		return f
	}
	at := func(k int64) time.Time { // of the job with k of them before it
		var eta leaky.Instant
		if k < q.Fit {
			eta = out.ETA(before(i, lane, k)+k*r.Cost, 0, k)
		} else {
			eta = out.ETA(all+k*r.Cost, deferred+(k-q.Fit)*r.Cost, q.Fit)
		}
		return max(eta, out.LaneETA(r.Lane, lane, lane.Waiting+k*r.Cost)).Time()
	}
	f.First, f.Last = at(0), at(taken-1)
	return f
}

// before returns the approximate cost of the waiting jobs that leave before a job of a lane appended behind k others.
func before(i *queue.Info, lane *queue.LaneInfo, k int64) int64 {
	others := i.Lanes
	if lane.Waiting > 0 {
		others--
	}
	if n := (lane.Waiting+k)*(others+1) + others - k; n < i.Waiting {
		return n
	}
	return i.Ahead
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
