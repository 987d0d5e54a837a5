package survey

import (
	"time"

	"github.com/penstock/penstock/queue"
)

// track is what is remembered of one queue.
type track struct {
	row     *Row
	known   queue.Reading // when it was last read whole
	parent  queue.Reading // the same of its parent, as of the row
	reading uint64        // the last one that it was part of
	marks   [2]mark       // at the last step and at the one before
	history *history      // nil if there are too many
}

// mark is what a queue had counted at an instant.
type mark struct {
	at       time.Time
	counters queue.Counters
}

// since are the rates from a mark on.
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

// recreated reports whether the counters of a queue began anew: it is another one of the same name.
func recreated(now, then *queue.Counters) bool {
	return now.Appended < then.Appended || now.Delivered < then.Delivered || now.Refused < then.Refused
}

// step notes the counters at a step, and the history up to it; of a queue that is new what is known of it already.
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

// differs reports whether a queue was changed, paused, resumed or stopped, or became full or not, since it was read
// whole.
func (t *track) differs(r *queue.Reading) bool {
	k, capacity := &t.known, t.row.Info.Spec.Capacity
	return r.Revision != k.Revision || r.Condition != k.Condition || (r.Size >= capacity) != (k.Size >= capacity)
}

// active reports whether a queue has jobs, or counted anything since it was read whole.
func (t *track) active(r *queue.Reading) bool {
	return r.Size > 0 || r.Deferred > 0 || r.Counters != t.known.Counters
}

// over reports whether what held it up has ended by itself.
func (t *track) over(now time.Time) bool {
	until := t.row.Status.Until
	return !until.IsZero() && !now.Before(until)
}

// outdated reports whether what is known of the queue's parent has changed.
func (t *track) outdated(parent *track) bool {
	return parent != nil && (parent.known.Revision != t.parent.Revision || parent.known.Condition != t.parent.Condition)
}
