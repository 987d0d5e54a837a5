// Package quote says what would become of jobs if they were appended now, and of those that wait: when they would
// leave, at the present rate and at another one.
package quote

import (
	"math"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/machine"
)

// MaxJobs is the most jobs that are quoted for: more than a queue and its overflow
// can hold.
const MaxJobs = 1_000_000_000

// Request asks what would become of jobs if they were appended now, and what would
// change at another rate.
type Request struct {
	Jobs int64 // with a Rate it may be 0: then it is about the present backlog alone
	Cost int64 // of each of them; 0 means 1
	Lane string
	// Rate is the other one; nil is none.
	Rate *leaky.Rate
}

// Quote is the answer. It is an estimate, by the pace: nobody else appends, nothing comes back, no deadline
// passes. What is in flight or scheduled counts for room, not for time.
type Quote struct {
	// What would become of the jobs: they would be taken into the queue, put on the
	// overflow, or refused, all of these as RefusedAs says: Full, LaneFull or OverflowFull.
	Fit, Deferred, Refused int64
	RefusedAs              queue.AppendOutcome
	// Paused: the instants are those of a queue that goes on at its pause's Until, or now if
	// it has none.
	Paused bool
	Until  time.Time
	Now    Forecast
	// Then is the same at the other rate; nil if none was asked about.
	Then *Forecast
}

// Forecast is when jobs would leave.
type Forecast struct {
	Rate leaky.Rate
	// First and Last of those that are not refused; zero if all are.
	First, Last time.Time
	// Drained is when the last would leave of those that wait or are deferred now; zero
	// if none do. The rates of lanes may make it later.
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

// Quote answers for a queue and the lane that r names, as Specs.Lane returned them. Its error is
// an *invalid.Error.
func (r Request) Quote(i *queue.Info, lane *queue.LaneInfo) (Quote, error) {
	if err := r.Validate(); err != nil {
		return Quote{}, err
	}
	r.Cost = max(1, r.Cost)
	q := Quote{}
	q.Paused, q.Until = stops(i)
	q.divide(&r, i, lane)
	out, err := machine.NewForecast(i, r.Cost, nil)
	if err != nil {
		return Quote{}, err
	}
	q.Now = q.forecast(&r, i, lane, out)
	q.Now.Rate = i.Rate
	if r.Rate != nil {
		if out, err = machine.NewForecast(i, r.Cost, r.Rate); err != nil {
			return Quote{}, err
		}
		then := q.forecast(&r, i, lane, out)
		then.Rate = *r.Rate
		q.Then = &then
	}
	return q, nil
}

// divide finds out how many would be taken, in the order in which Append asks: the lane, the
// queue, the overflow.
func (q *Quote) divide(r *Request, i *queue.Info, lane *queue.LaneInfo) {
	defers := i.Spec.Overflow == queue.Defer
	room := i.Spec.Capacity - i.Size()
	switch {
	case i.Deferred > 0 && defers: // they queue behind what is there
		room = 0
	case i.Deferred > 0:
		room = min(room, max(1, i.Spec.Capacity-i.Spec.Mark())-(i.Size()-i.Back))
	}
	inLane := int64(math.MaxInt64)
	if c := i.Spec.Lanes.Of(r.Lane).Capacity; c > 0 {
		inLane = c - lane.Held
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

// forecast is by the rule by which engines tell an ETA. No sum or product comes near 2^63: there are
// no more than 10^8 jobs in a queue or on its overflow, none costs more than 10^3, and no more than
// 10^3 queues take turns with it.
func (q *Quote) forecast(r *Request, i *queue.Info, lane *queue.LaneInfo, out *machine.Forecast) (f Forecast) {
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
	at := func(k int64) time.Time { // of the one that has k of them before it
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

// before is about the cost of what waits now and leaves before a job of a lane that is
// appended behind k others.
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

// stops reports whether nothing leaves the queue because it is paused, or its parent, and until when,
// if that is known.
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
