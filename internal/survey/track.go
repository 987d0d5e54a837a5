package survey

import (
	"time"

	"github.com/penstock/penstock/queue"
)

// track holds the past of one queue.
type track struct {
	row     *Row
	known   queue.Reading // at the last complete reading
	parent  queue.Reading // known of the parent when row was made
	reading uint64        // number of the last reading that included the queue
	marks   [2]mark       // at the last two steps, newest first
	history *history      // nil beyond Options.MaxQueues
}

// mark holds the counters of a queue at an instant.
type mark struct {
	at       time.Time
	counters queue.Counters
}

// since returns the rates since the mark.
func (m *mark) since(now time.Time, c *queue.Counters) Rates {
	seconds := now.Sub(m.at).Seconds()
	if seconds <= 0 {
		return Rates{}
	}
	a := func(now, then int64) float64 { return max(0, float64(now-then)) / seconds }
	return Rates{
		In: a(came(c), came(&m.counters)), Out: a(left(c), left(&m.counters)), Refused: a(c.Refused, m.counters.Refused),
		Released: a(c.Released, m.counters.Released),
	}
}

// recreated reports whether the counters started over: the queue was deleted and created again.
func recreated(now, then *queue.Counters) bool {
	return now.Appended < then.Appended || now.Delivered < then.Delivered || now.Refused < then.Refused
}

// step records the counters and adds a sample to the history. A new queue has no rates yet.
func (t *track) step(c *clock, now time.Time) {
	if t.history != nil {
		s := sampleOf(t.row, t.marks[0].since(now, &t.row.Counters), now)
		if t.marks[0].at.Equal(now) {
			s[in], s[out], s[refused], s[released] = unknown, unknown, unknown, unknown
		}
		t.history.add(c, s)
	}
	t.marks[1], t.marks[0] = t.marks[0], mark{now, t.row.Counters}
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

// over reports whether the time limit of the queue's status has passed.
func (t *track) over(now time.Time) bool {
	until := t.row.Status.Until
	return !until.IsZero() && !now.Before(until)
}

// outdated reports whether the parent has changed since row was made.
func (t *track) outdated(parent *track) bool {
	return parent != nil && (parent.known.Revision != t.parent.Revision || parent.known.Condition != t.parent.Condition)
}
