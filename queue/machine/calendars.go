package machine

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/leaky"
)

// renewCalendar computes the ends of a quota's windows from now on, by the wall clock, and where they are in its ramp.
// It is due again when fewer than half are left.
func (l *limit) renewCalendar(now leaky.Instant) error {
	q, err := l.QuotaRule(now.Time())
	if err != nil {
		return err
	}
	l.quota, l.renewAt = q, never
	c := q.Calendar
	if half := c.Left(now) / 2; half > 0 {
		for l.renewAt = now; c.Left(l.renewAt) >= half; {
			l.renewAt = c.End(l.renewAt)
		}
	}
	return nil
}

// calendarDue is when a calendar of a queue must be renewed. An entry stays until then even if the renewal was put off
// or the queue deleted.
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
		if l := &q.limits[i]; l.HasQuota() && l.renewAt != never {
			m.calendars.push(calendarDue{l.renewAt, q})
		}
	}
}

const renewCalendarsMax = 100 // queues per call; a calendar still has half of its windows then

// Tick renews calendars of quotas that are due. Call it with the time before anything else. A quota whose calendar
// cannot be renewed goes on in steps of its last window; Tick returns an error for it.
func (m *Machine) Tick(now leaky.Instant) (err error) {
	now = m.wall(now)
	for n := 0; n < renewCalendarsMax && m.calendars.len() > 0 && m.calendars.top().at <= now; n++ {
		q := m.calendars.pop().queue
		if !q.live {
			continue
		}
		for i := range q.limits {
			l := &q.limits[i]
			if !l.HasQuota() || l.renewAt > now {
				continue
			}
			if e := l.renewCalendar(now); e != nil {
				err = fmt.Errorf("quota calendar of %s: %w", q.name, e)
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
