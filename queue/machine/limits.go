package machine

import (
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// limit is a further pace, with a bucket, or a quota, with a window.
type limit struct {
	queue.Limit
	pacer   leaky.Pacer
	bucket  leaky.Bucket
	quota   leaky.Quota
	window  leaky.Window
	renewAt leaky.Instant // when its calendar must be renewed, which knows a bounded number of ends; mostly never
	// carried: it has taken over the state of an earlier limit.
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

// carryOverLimits makes the limits of a new spec. Each takes over from an equal old one, else from one of its kind.
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

// carryOver takes over the state of another limit of the same kind.
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

// renewCalendar computes the ends of a quota's windows from now on. That is due again when fewer than half are
// left.
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

// noteCalendars notes when the next calendar of p must be renewed.
func (m *Machine) noteCalendars(p *paces) {
	for i := range p.limits {
		if own := &p.limits[i]; !own.Paced() {
			m.calendarsDue = min(m.calendarsDue, own.renewAt)
		}
	}
}

// Tick renews the calendars of quotas that are due. It is called with the time before anything else is. An error is of
// a quota whose calendar cannot be renewed: it goes on in steps of the last one.
func (m *Machine) Tick(now leaky.Instant) (err error) {
	if now < m.calendarsDue {
		return nil
	}
	m.calendarsDue = never
	for _, q := range m.queues {
		for i := range q.limits {
			if l := &q.limits[i]; !l.Paced() && l.renewAt <= now {
				if e := l.renewCalendar(now); e != nil {
					err = fmt.Errorf("the calendar of a quota of %s: %w", q.name, e)
					l.renewAt = now.Add(renewAgain)
				}
			}
		}
		m.noteCalendars(&q.paces)
	}
	return err
}

const renewAgain = time.Hour
