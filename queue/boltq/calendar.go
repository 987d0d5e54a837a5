package boltq

import (
	"time"

	"github.com/penstock/penstock/leaky"
)

// renew lets a quota's calendar know its ends from now on. It is to be done again when fewer than
// half of them are left.
func (m *limit) renew(now leaky.Instant) error {
	c, err := m.Calendar(now.Time())
	if err != nil {
		return err
	}
	m.quota.Calendar, m.renews = c, never
	if half := c.Left(now) / 2; half > 0 {
		for m.renews = now; c.Left(m.renews) >= half; {
			m.renews = c.End(m.renews)
		}
	}
	return nil
}

// attend notes when a calendar of the queue's is to be renewed.
func (e *Engine) attend(p *paces) {
	for i := range p.limits {
		if m := &p.limits[i]; !m.Paced() {
			e.renews = min(e.renews, m.renews)
		}
	}
}

// renewCalendars renews the calendars of all queues.
func (e *Engine) renewCalendars(now leaky.Instant) {
	e.renews = never
	for _, l := range e.lines {
		for i := range l.limits {
			if m := &l.limits[i]; !m.Paced() && m.renews <= now {
				if err := m.renew(now); err != nil { // it goes on in steps of the last one
					e.log.Error("the calendar of a quota cannot be renewed", "queue", l.spec.Name, "error", err)
					m.renews = now.Add(renewAgain)
				}
			}
		}
		e.attend(&l.paces)
	}
}

const renewAgain = time.Hour
