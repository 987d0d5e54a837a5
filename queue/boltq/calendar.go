package boltq

import (
	"time"

	"github.com/penstock/penstock/leaky"
)

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
