package boltq

import (
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// limit is one of the limits: a further pace, with a bucket, or a quota, with a window.
type limit struct {
	queue.Limit
	pacer   leaky.Pacer
	bucket  leaky.Bucket
	quota   leaky.Quota
	window  leaky.Window
	renewAt leaky.Instant // when its calendar is to be, which knows so many ends; never mostly
	// carried says that it has the state of another.
	carried bool
}

func newLimit(of queue.Limit, now leaky.Instant) (limit, error) {
	if of.Paced() {
		return limit{Limit: of, pacer: of.Pacer()}, nil
	}
	m := limit{Limit: of, quota: leaky.Quota{Max: of.Quota.Max}}
	return m, m.renewCalendar(now)
}

func (m *limit) opens(now leaky.Instant) leaky.Instant {
	if m.Paced() {
		return m.pacer.Next(m.bucket, now)
	}
	return m.quota.Next(m.window, now)
}

// carryOverLimits makes limits that follow others, which are at the end of their rule.
func carryOverLimits(old []limit, spec []queue.Limit, now leaky.Instant) ([]limit, error) {
	var next []limit
	for _, of := range spec {
		m, err := newLimit(of, now)
		if err != nil {
			return nil, err
		}
		next = append(next, m)
	}
	old = slices.Clone(old)
	for _, like := range []func(a, b *limit) bool{
		func(a, b *limit) bool { return a.Limit == b.Limit },
		func(a, b *limit) bool { return a.Paced() == b.Paced() },
	} {
		for i := range next {
			m := &next[i]
			if m.carried {
				continue
			}
			if at := slices.IndexFunc(old, func(o limit) bool { return like(m, &o) }); at >= 0 {
				m.carryOver(&old[at], now)
				old = slices.Delete(old, at, at+1)
			}
		}
	}
	return next, nil
}

// carryOver carries the state of another limit of its kind over.
func (m *limit) carryOver(o *limit, now leaky.Instant) {
	m.carried = true
	switch {
	case m.Limit == o.Limit:
		m.bucket, m.window = o.bucket, o.window
	case m.Paced():
		m.bucket = o.pacer.Change(o.bucket, m.pacer, now)
	default:
		m.window = m.quota.Follow(o.quota, o.window, now)
	}
}

// renewCalendar lets a quota's calendar know its ends from now on. It is to be done again when fewer than
// half of them are left.
func (m *limit) renewCalendar(now leaky.Instant) error {
	c, err := m.Calendar(now.Time())
	if err != nil {
		return err
	}
	m.quota.Calendar, m.renewAt = c, never
	if half := c.Left(now) / 2; half > 0 {
		for m.renewAt = now; c.Left(m.renewAt) >= half; {
			m.renewAt = c.End(m.renewAt)
		}
	}
	return nil
}

// noteCalendars notes when a calendar of the queue's is to be renewed.
func (e *Engine) noteCalendars(p *paces) {
	for i := range p.limits {
		if m := &p.limits[i]; !m.Paced() {
			e.calendarsDue = min(e.calendarsDue, m.renewAt)
		}
	}
}

// renewCalendars renews the calendars of all queues.
func (e *Engine) renewCalendars(now leaky.Instant) {
	e.calendarsDue = never
	for _, q := range e.queues {
		for i := range q.limits {
			if m := &q.limits[i]; !m.Paced() && m.renewAt <= now {
				if err := m.renewCalendar(now); err != nil { // it goes on in steps of the last one
					e.log.Error("the calendar of a quota cannot be renewed", "queue", q.spec.Name, "error", err)
					m.renewAt = now.Add(renewAgain)
				}
			}
		}
		e.noteCalendars(&q.paces)
	}
}

const renewAgain = time.Hour
