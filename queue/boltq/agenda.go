package boltq

import "github.com/penstock/penstock/leaky"

const (
	ripenQueues = 100 // queues whose scheduled jobs are looked at, a call
	ripenMax    = 100 // of each
)

// The agenda orders the queues where a job waits by the instant at which it
// became possible that one departs, ties by the order in which they were made.
// Beside it stand the queues with scheduled jobs, by when the first is due. Idle
// and paused queues are on neither, and cost nothing.

func newAgenda() heap[*line] {
	return heap[*line]{
		less: func(a, b *line) bool {
			if a.departs != b.departs {
				return a.departs < b.departs
			}
			return a.number < b.number
		},
		moved: func(l *line, i int) { l.agendaAt = i },
	}
}

func newRipening() heap[*line] {
	return heap[*line]{
		less: func(a, b *line) bool {
			if a.ripens != b.ripens {
				return a.ripens < b.ripens
			}
			return a.number < b.number
		},
		moved: func(l *line, i int) { l.ripeningAt = i },
	}
}

// place puts l where it belongs in a heap after its key may have changed, or
// takes it out.
func place(h *heap[*line], l *line, at int, belongs bool) {
	switch {
	case belongs && at < 0:
		h.push(l)
	case belongs:
		h.fix(at)
	case at >= 0:
		h.remove(at)
	}
}

// arm works out when l can next depart, after its bucket or its jobs changed.
// Of a queue in which jobs waited before, the earlier instant stands: the slots
// since then were lost, whatever comes back meanwhile.
func (e *Engine) arm(l *line, now leaky.Instant) {
	waits := l.awake() && l.fifo.len() > 0
	if waits {
		next := l.pacer.Next(l.bucket, now)
		if l.agendaAt < 0 || next < l.departs {
			l.departs = next
		}
	}
	place(&e.agenda, l, l.agendaAt, waits)
	e.armRipening(l)
}

// disarm takes l off the agenda, so that arm finds anew when it can depart.
func (e *Engine) disarm(l *line) {
	if l.agendaAt >= 0 {
		e.agenda.remove(l.agendaAt)
	}
}

func (e *Engine) armRipening(l *line) {
	later := l.awake() && l.later.len() > 0
	if later {
		l.ripens = l.later.top().due
	}
	place(&e.ripening, l, l.ripeningAt, later)
}

// awake reports whether anything may leave.
func (l *line) awake() bool { return l.live && !l.paused }

// due arms l after jobs came to it, and wakes the watcher when it would look too
// late.
func (e *Engine) due(l *line, now leaky.Instant) {
	e.arm(l, now)
	if at, any := l.next(); any {
		e.wakeFor(at, now)
	}
}

// next returns when l should be looked at.
func (l *line) next() (at leaky.Instant, any bool) {
	switch {
	case l.agendaAt >= 0 && l.ripeningAt >= 0:
		return min(l.departs, l.ripens), true
	case l.agendaAt >= 0:
		return l.departs, true
	case l.ripeningAt >= 0:
		return l.ripens, true
	}
	return 0, false
}

// ripen puts scheduled jobs whose time has come back at their turn, in a bounded
// number of queues. A queue in which nothing waited could depart from when the
// first of them was due.
func (e *Engine) ripen(now leaky.Instant) {
	var later []*line
	for len(later) < ripenQueues && e.ripening.len() > 0 && e.ripening.top().ripens <= now {
		l := e.ripening.pop()
		later = append(later, l)
		if l.busy != nil {
			continue // whoever is changing it arms it
		}
		idle, first := l.fifo.len() == 0, l.ripens
		for n := 0; n < ripenMax && l.later.len() > 0 && l.later.top().due <= now; n++ {
			e.wait(l.later.pop().job)
		}
		if idle {
			l.departs = l.pacer.Next(l.bucket, first)
			place(&e.agenda, l, l.agendaAt, true)
		}
	}
	for _, l := range later {
		e.armRipening(l)
	}
}
