package boltq

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// The agenda orders the queues that have something to depart by the instant at
// which it became possible, ties by the order in which they were made. Idle and
// paused queues are not on it, and cost nothing.

func newAgenda() heap[*line] {
	return heap[*line]{
		less: func(a, b *line) bool {
			if a.agenda != b.agenda {
				return a.agenda < b.agenda
			}
			return a.number < b.number
		},
		moved: func(l *line, i int) { l.agendaAt = i },
	}
}

// possible returns when the queue can next depart, and whether anything can.
func (l *line) possible(now leaky.Instant) (leaky.Instant, bool) {
	switch {
	case l.paused || !l.live:
		return 0, false
	case l.fifo.len() > 0:
		return l.pacer.Next(l.bucket, now), true
	case l.later.len() > 0:
		return max(l.later.top().due, l.pacer.Next(l.bucket, now)), true
	}
	return 0, false
}

// arm puts the queue on the agenda anew, after its bucket or its state changed.
func (e *Engine) arm(l *line, now leaky.Instant) {
	at, any := l.possible(now)
	switch {
	case !any:
		if l.agendaAt >= 0 {
			e.agenda.remove(l.agendaAt)
		}
	case l.agendaAt < 0:
		l.agenda = at
		e.agenda.push(l)
	default:
		l.agenda = at
		e.agenda.fix(l.agendaAt)
	}
}

// due puts the queue on the agenda after a job came to it, and wakes the
// watcher when it would look too late. A queue that could already depart keeps
// the instant at which that became possible.
func (e *Engine) due(l *line, now leaky.Instant) {
	at, any := l.possible(now)
	if !any || l.agendaAt >= 0 && l.agenda <= at {
		return
	}
	e.arm(l, now)
	e.wakeFor(l, now)
}

// lookAt is when a watcher should ask because of l: half a horizon before a
// departure, but not before a scheduled job's time has come, when it could not
// be granted.
func (l *line) lookAt() leaky.Instant {
	at := l.agenda.Add(-queue.Horizon / 2)
	if l.fifo.len() == 0 && l.later.len() > 0 {
		at = max(at, l.later.top().due)
	}
	return at
}

// ripe reports whether a visit of l would find something to grant.
func (l *line) ripe(now leaky.Instant) bool {
	return l.agenda <= now.Add(queue.Horizon) &&
		(l.fifo.len() > 0 || l.later.len() > 0 && l.later.top().due <= now)
}
