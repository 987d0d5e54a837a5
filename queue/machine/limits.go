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
	quota   leaky.Quota // and its windows are told by the wall clock
	window  leaky.Window
	renewAt leaky.Instant // when its calendar must be renewed, which knows a bounded number of ends; mostly never
	env     *Environment  // nil if the clocks show the same
	// carried: it has taken over the state of an earlier limit.
	carried bool
}

func newLimit(of queue.Limit, env *Environment, now leaky.Instant) (limit, error) {
	if of.Paced() {
		return limit{Limit: of, pacer: of.Pacer()}, nil
	}
	m := limit{Limit: of, quota: leaky.Quota{Max: of.Quota.Max}, env: env}
	return m, m.renewCalendar(env.wall(now))
}

func (m *limit) opens(now leaky.Instant) leaky.Instant {
	if m.Paced() {
		return m.pacer.Next(m.bucket, now)
	}
	return m.env.engine(m.quota.Next(m.window, m.env.wall(now)))
}

// carryOverLimits makes the limits of a new spec. Each takes over from an equal old one, else from one of its kind.
func carryOverLimits(old []limit, spec []queue.Limit, env *Environment, now leaky.Instant) ([]limit, error) {
	var next []limit
	for _, of := range spec {
		m, err := newLimit(of, env, now)
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
		m.window = m.quota.Follow(o.quota, o.window, m.env.wall(now))
	}
}

// renewCalendar computes the ends of a quota's windows from now on, by the wall clock. That is due again when fewer
// than half are left.
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

// calendarDue is when a calendar of a queue must be renewed. One that was put off since, or went, stays until then.
type calendarDue struct {
	at    leaky.Instant
	queue *queueState
}

func newCalendars() heap[calendarDue] {
	return heap[calendarDue]{
		key: func(c calendarDue) heapKey { return heapKey{int64(c.at), c.queue.number} },
	}
}

// noteCalendars notes when the calendars of a queue must be renewed.
func (m *Machine) noteCalendars(q *queueState) {
	for i := range q.limits {
		if l := &q.limits[i]; !l.Paced() && l.renewAt != never {
			m.calendars.push(calendarDue{l.renewAt, q})
		}
	}
}

const renewCalendarsMax = 100 // queues whose calendars are renewed, a call; half of the ends that they know are left

// Tick renews calendars of quotas that are due. It is called with the time before anything else is. An error is of a
// quota whose calendar cannot be renewed: it goes on in steps of the last one.
func (m *Machine) Tick(now leaky.Instant) (err error) {
	now = m.wall(now)
	for n := 0; n < renewCalendarsMax && m.calendars.len() > 0 && m.calendars.top().at <= now; n++ {
		q := m.calendars.pop().queue
		if !q.live {
			continue
		}
		for i := range q.limits {
			l := &q.limits[i]
			if l.Paced() || l.renewAt > now {
				continue
			}
			if e := l.renewCalendar(now); e != nil {
				err = fmt.Errorf("the calendar of a quota of %s: %w", q.name, e)
				l.renewAt = now.Add(renewAgain)
			}
			if l.renewAt != never {
				m.calendars.push(calendarDue{l.renewAt, q})
			}
		}
	}
	return err
}

const renewAgain = time.Hour
