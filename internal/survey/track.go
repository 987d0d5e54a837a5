package survey

import (
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/queue"
)

// track holds the past of one queue.
type track struct {
	row     *Row
	known   queue.Reading // at the last complete reading
	parent  queue.Reading // known of the parent when row was made
	reading uint64        // number of the last reading that included the queue
	points  [2]point      // at the last two steps, newest first
	history *history      // nil beyond Options.MaxQueues
}

// point holds the counters of a queue at an instant.
type point struct {
	at       time.Time
	counters queue.Counters
}

// since returns the rates since the point.
func (p *point) since(now time.Time, c *queue.Counters) Rates {
	seconds := now.Sub(p.at).Seconds()
	if seconds <= 0 {
		return Rates{}
	}
	a := func(now, then int64) float64 { return max(0, float64(now-then)) / seconds }
	return Rates{
		In: a(came(c), came(&p.counters)), Out: a(left(c), left(&p.counters)), Refused: a(c.Refused, p.counters.Refused),
		Released: a(c.Released, p.counters.Released), Lost: a(c.Lost, p.counters.Lost),
	}
}

// recreated reports whether the counters started over: the queue was deleted and created again.
func recreated(now, then *queue.Counters) bool {
	return now.Appended < then.Appended || now.Delivered < then.Delivered || now.Refused < then.Refused
}

// step records the counters and adds a sample to the history.
func (t *track) step(c *clock, now time.Time) {
	if t.history != nil {
		t.history.add(c, sampleOf(t.row, now))
	}
	t.points[1], t.points[0] = t.points[0], point{now, t.row.Counters}
}

// differs reports whether the queue was changed, paused, resumed or stopped, became full, or got room, since its last
// complete reading.
func (t *track) differs(r *queue.Reading) bool {
	k, capacity := &t.known, t.row.Info.Spec.Capacity
	return r.Revision != k.Revision || r.Condition != k.Condition || (r.Size >= capacity) != (k.Size >= capacity)
}

// active reports whether the queue has jobs, or counted anything since its last complete reading.
func (t *track) active(r *queue.Reading) bool {
	return r.Size > 0 || r.Deferred > 0 || r.Counters != t.known.Counters
}

// unattended reports whether nobody asked for jobs when the outlook was made. That changes without notice.
func (t *track) unattended() bool {
	o := t.row.Outlook
	return o != nil && (o.Why == cause.Drainer || o.Why == cause.Puller)
}

// over reports whether the time limit of the queue's status has passed.
func (t *track) over(now time.Time) bool {
	until := t.row.Status.Until
	return !until.IsZero() && !now.Before(until)
}

// outdated reports whether the parent has changed since row was made.
func (t *track) outdated(parent *track) bool {
	return parent != nil && (parent.known.Revision != t.parent.Revision || parent.known.Condition != t.parent.Condition)
}
