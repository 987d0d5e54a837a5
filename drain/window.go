package drain

import (
	"time"

	"github.com/penstock/penstock/queue"
)

const (
	// sharpenTries is how often a grant that came slowly is asked for again.
	sharpenTries = 2
	// sharpTrip is a round trip that leaves most of any slack.
	sharpTrip = time.Millisecond / 2
)

// grant is a granted job, and between which instants of the local clock it departs: not
// before from (s+d), not behind to (r+d).
type grant struct {
	*queue.Reservation
	from, to time.Time
}

func grants(jobs []queue.Reservation, asked, answered time.Time) []grant {
	all := make([]grant, len(jobs))
	for i := range jobs {
		all[i] = grant{&jobs[i], asked.Add(jobs[i].In), answered.Add(jobs[i].In)}
	}
	return all
}

// sharpen joins what two answers to one request say: both are true. Jobs that the
// second leaves out are not the client's any more.
func sharpen(first, second []grant) []grant {
	known := make(map[queue.Lease]grant, len(first))
	for _, g := range first {
		known[leaseOf(g.Reservation)] = g
	}
	for i, g := range second {
		if k, ok := known[leaseOf(g.Reservation)]; ok {
			if k.from.After(g.from) {
				second[i].from = k.from
			}
			if k.to.Before(g.to) {
				second[i].to = k.to
			}
		}
	}
	return second
}

func leaseOf(r *queue.Reservation) queue.Lease {
	return queue.Lease{Queue: r.Queue, ID: r.ID, Fence: r.Fence}
}

// blurred reports whether an answer took so long that it leaves a paced job less than half of
// its slack, while there is time to ask again before that job departs. A slow
// answer says little about when a job departs; to ask again under the same
// number costs a round trip, not the slot.
//
// The second answer is of use only before until. A job that can start as things
// are must not miss its start for it, should the reply be lost; and behind the last
// window there is nothing left to sharpen.
func (d *drainer) blurred(all []grant, trip time.Duration) (until time.Time, blurred bool) {
	if trip <= sharpTrip {
		return time.Time{}, false
	}
	var inHand time.Time // when the first of those that can start must be let go
	for _, g := range all {
		slack, paced := d.slack(g.Queue)
		start := g.to
		if !paced { // only the end of its window presses
			slack = max(slack, unlimitedSlack)
			start = g.from.Add(slack)
		}
		end := g.from.Add(slack)
		if end.Sub(g.to) >= jitter && (inHand.IsZero() || start.Before(inHand)) {
			inHand = start
		}
		if paced && end.After(until) {
			until = end
		}
		if paced && g.In > trip && g.to.Sub(g.from) > slack/2 {
			blurred = true
		}
	}
	if inHand.IsZero() {
		return until, blurred
	}
	inHand = inHand.Add(-jitter)
	if inHand.Before(until) {
		until = inHand
	}
	return until, blurred && time.Until(inHand) > trip
}
