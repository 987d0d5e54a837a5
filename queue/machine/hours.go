package machine

import (
	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// openHours are the hours of a queue or a lane: when jobs may leave, by the wall clock. A nil one is always open.
type openHours struct {
	rules    queue.Hours
	schedule *queue.Schedule
	// The spans that are known, from an instant to another one, by the wall clock. They are then computed again.
	known       leaky.Hours
	from, until leaky.Instant
	env         *Environment // nil if the clocks show the same
}

// newOpenHours returns the hours of a valid spec; nil without hours.
func newOpenHours(rules queue.Hours, env *Environment) *openHours {
	if s, err := rules.Schedule("hours"); err == nil && s != nil {
		return &openHours{rules: rules, schedule: s, env: env}
	}
	return nil
}

// spans returns the spans known at now.
func (h *openHours) spans(now leaky.Instant) leaky.Hours {
	if wall := h.env.wall(now); wall < h.from || wall >= h.until {
		h.known, h.until = h.schedule.Calendar(wall.Time())
		h.from = wall - dayBack
	}
	return h.known
}

// dayBack is how far the wall clock may go back before the spans are computed again.
const dayBack = leaky.Instant(86_400_000_000)

// next returns the first instant, not before at, that is within the hours.
func (h *openHours) next(at, now leaky.Instant) leaky.Instant {
	if h == nil {
		return at
	}
	return h.env.engine(h.spans(now).Next(h.env.wall(at)))
}

// since returns since when the hours have been open at an instant, or when they open next.
func (h *openHours) since(at, now leaky.Instant) leaky.Instant {
	return h.env.engine(h.spans(now).Since(h.env.wall(at)))
}

// eta is Pacer.ETA within the hours.
func (h *openHours) eta(p leaky.Pacer, b leaky.Bucket, at, now leaky.Instant, ahead int64) leaky.Instant {
	if h == nil {
		return p.ETA(b, at, ahead)
	}
	b.TAT, b.Last = h.env.wall(b.TAT), h.env.wall(b.Last)
	return h.env.engine(h.spans(now).ETA(p, b, h.env.wall(at), ahead))
}

// why says that the hours are closed.
func (h *openHours) why(by cause.Cause, now leaky.Instant) queue.Why {
	return queue.Why{By: by, Until: h.next(now, now).Time(), Reason: h.rules.String()}
}

// inHours returns the first departure, not before at, that is within the hours of the queue and its parent.
func (q *queueState) inHours(at, now leaky.Instant) leaky.Instant {
	if p := q.parent(); p != nil && p.hours != nil {
		return inAll(at, now, q.hours, p.hours)
	}
	return q.hours.next(at, now)
}

// commonHours is inHours for a lane.
func (ln *lane) commonHours(at, now leaky.Instant) leaky.Instant {
	h := ln.hours()
	if h == nil {
		return ln.queue.inHours(at, now)
	}
	var parents *openHours
	if p := ln.queue.parent(); p != nil {
		parents = p.hours
	}
	return inAll(at, now, ln.queue.hours, parents, h)
}

// inAllMax is how often different hours are compared to find a common instant.
const inAllMax = 16

// inAll returns the first instant that is within all hours, as far as a limited number of spans has one.
func inAll(at, now leaky.Instant, all ...*openHours) leaky.Instant {
	for range inAllMax {
		before := at
		for _, h := range all {
			at = h.next(at, now)
		}
		if at == before {
			break
		}
	}
	return at
}

// hours returns the hours of a lane; nil if it has none of its own.
func (ln *lane) hours() *openHours {
	q := ln.queue
	if !ln.keyed() {
		return nil
	}
	rules := ln.rule().Hours
	if !rules.On() {
		return nil
	}
	t := q.laneTurns
	if t == nil {
		return newOpenHours(rules, q.env)
	}
	h, known := t.hours[rules]
	if !known {
		if t.hours == nil || len(t.hours) >= queue.MaxLaneHours {
			t.hours = map[queue.Hours]*openHours{} // some may belong to an earlier spec
		}
		h = newOpenHours(rules, q.env)
		t.hours[rules] = h
	}
	return h
}
