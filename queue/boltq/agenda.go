package boltq

import "github.com/penstock/penstock/leaky"

const (
	ripenQueues = 100 // queues whose scheduled jobs are looked at, a call
	ripenMax    = 100 // of each
)

// The agenda orders the queues where a job waits by the instant at which it
// became possible that one departs, ties by the order in which they were made.
// Beside it stand the queues with scheduled jobs, by when the first is due, and those
// whose lanes all rest. Idle and paused queues are on neither, and cost nothing.

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

// arm works out when l can next depart, after its jobs changed. Of a queue in which jobs
// waited before, the earlier instant stands: the slots since then were lost, whatever
// comes back meanwhile. So it does of one whose lanes rested, which stays among the
// ripening.
func (e *Engine) arm(l *line, now leaky.Instant) {
	next := l.pacer.Next(l.bucket, now)
	able := l.awake() && l.able(next) && !l.rested()
	if able && (l.agendaAt < 0 || next < l.departs) {
		l.departs = next
	}
	place(&e.agenda, l, l.agendaAt, able)
	e.armRipening(l)
}

// rearm finds anew when l can depart: after a visit, by another rule, after a pause.
func (e *Engine) rearm(l *line, now leaky.Instant) {
	l.departs = l.pacer.Next(l.bucket, now)
	place(&e.agenda, l, l.agendaAt, l.awake() && l.able(l.departs))
	e.armRipening(l)
}

func (e *Engine) armRipening(l *line) {
	later := false
	if l.awake() {
		l.ripens, later = l.ripe()
	}
	place(&e.ripening, l, l.ripeningAt, later)
}

// ripe returns when the first job of l is due, or the first of its lanes, if it waits for
// those.
func (l *line) ripe() (at leaky.Instant, any bool) {
	at, any = l.wakes()
	if l.later.len() > 0 && (!any || l.later.top().due < at) {
		return l.later.top().due, true
	}
	return at, any
}

// awake reports whether anything may leave.
func (l *line) awake() bool { return l.live && !l.paused }

// due arms l after jobs came to it, and wakes the watcher when it would look too
// late.
func (e *Engine) due(l *line, now leaky.Instant) {
	e.arm(l, now)
	e.wakeForLine(l, now)
}

func (e *Engine) wakeForLine(l *line, now leaky.Instant) {
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
// number of queues. A queue of which nothing could depart can from when the first of
// them was due, or of its lanes.
func (e *Engine) ripen(now leaky.Instant) {
	var later []*line
	for len(later) < ripenQueues && e.ripening.len() > 0 && e.ripening.top().ripens <= now {
		l := e.ripening.pop()
		later = append(later, l)
		if l.busy != nil {
			continue // whoever is changing it arms it
		}
		first := l.ripens
		for n := 0; n < ripenMax && l.later.len() > 0 && l.later.top().due <= now; n++ {
			e.ripened(l.later.pop(), now)
		}
		if l.agendaAt < 0 && l.able(l.pacer.Next(l.bucket, now)) {
			l.departs = l.pacer.Next(l.bucket, first)
			e.agenda.push(l)
		}
	}
	for _, l := range later {
		e.armRipening(l)
	}
}

// ripened lets a scheduled job wait. One that was never granted needs its flight no more.
func (e *Engine) ripened(f *flight, now leaky.Instant) {
	e.wait(f.job, now)
	if f.attempts == 0 {
		f.job.flight = nil
	}
}
