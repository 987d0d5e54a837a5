package grant

import (
	"time"

	"github.com/penstock/penstock/queue"
)

const (
	// sharpenTries is how often a grant that came slowly is asked for again.
	sharpenTries = 2
	// sharpTrip is a round trip that leaves most of any slack.
	sharpTrip = time.Millisecond / 2
	// jitter is how late a timer may be without being taken for a stall.
	jitter = time.Millisecond
)

// Sharpen asks again for an answer that came slowly, while that can help. No repeat can take away what an answer before
// it brought. specOf returns the spec of a queue as far as it is known, or nil.
func Sharpen(
	a Answer, specOf func(name string) *queue.Spec, again func(timeout time.Duration) (Answer, error),
) Answer {
	for range sharpenTries {
		until, blurred := a.blurred(specOf)
		if !blurred {
			break
		}
		b, err := again(time.Until(until))
		if err != nil {
			break
		}
		if len(a.Short) > 0 { // which a repeated answer does not tell
			b.Short, b.Next = a.Short, max(0, a.Next-b.Trip)
		}
		join(&a, &b)
		a = b
	}
	return a
}

// join narrows the windows of a second answer by those of the first: both are true. Jobs that the second leaves out are
// not the client's any more.
func join(first, second *Answer) {
	known := make(map[queue.Lease]Window, len(first.Jobs))
	for i := range first.Jobs {
		known[LeaseOf(&first.Jobs[i])] = first.Windows[i]
	}
	for i := range second.Jobs {
		w := &second.Windows[i]
		if k, ok := known[LeaseOf(&second.Jobs[i])]; ok {
			if k.Departs.After(w.Departs) {
				w.Departs, w.LeaseEnd = k.Departs, k.LeaseEnd
			}
			if k.Earliest.Before(w.Earliest) {
				w.Earliest = k.Earliest
			}
		}
	}
}

// blurred reports whether an answer took so long that it leaves a paced job less than half of its slack, while there is
// time to ask again before that job departs. A slow answer says little about when a job departs; to ask again costs a
// round trip, not the slot.
//
// The second answer is of use only before until. A job that can start as things are must not miss its start for it,
// should the reply be lost; and behind the last window there is nothing left to sharpen.
func (a *Answer) blurred(specOf func(name string) *queue.Spec) (until time.Time, blurred bool) {
	if a.Trip <= sharpTrip {
		return time.Time{}, false
	}
	var inHand time.Time // when the first of those that can start must be let go
	for i := range a.Jobs {
		job, w := &a.Jobs[i], &a.Windows[i]
		slack, paced := queue.DefaultSlack, true
		if spec := specOf(job.Queue); spec != nil {
			slack, paced = Slack(spec), !spec.Rate.Unlimited()
		}
		start, end := w.Earliest, w.Departs.Add(slack)
		if !paced { // only the end of its window presses
			start = end
		}
		if end.Sub(w.Earliest) >= jitter && (inHand.IsZero() || start.Before(inHand)) {
			inHand = start
		}
		if paced && end.After(until) {
			until = end
		}
		if paced && job.In > a.Trip && w.Earliest.Sub(w.Departs) > slack/2 {
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
	return until, blurred && time.Until(inHand) > a.Trip
}
