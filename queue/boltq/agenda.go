package boltq

import "github.com/penstock/penstock/leaky"

const (
	ripenQueues = 100 // queues whose scheduled jobs are looked at, a call
	ripenMax    = 100 // of each
)

// outlet is what stands on the agenda: a queue by itself, or a group in place of its queues.
type outlet struct {
	of       *line         // the queue, or the parent
	whole    *group        // nil if it is a queue
	departs  leaky.Instant // since when, or when, something can
	agendaAt int           // its place on the agenda; -1 if nothing can
}

// The agenda orders the queues where a job waits by the instant at which it
// became possible that one departs, ties by the order in which they were made.
// Beside it stand the queues with scheduled jobs, by when the first is due, and those
// whose lanes all rest, and paused ones that go on by themselves. Idle queues are on neither, nor
// others that are paused, and cost nothing.

func newAgenda() heap[*outlet] {
	return heap[*outlet]{
		less: func(a, b *outlet) bool {
			if a.departs != b.departs {
				return a.departs < b.departs
			}
			return a.of.number < b.of.number
		},
		moved: func(o *outlet, i int) { o.agendaAt = i },
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

// place puts v where it belongs in a heap after its key may have changed, or
// takes it out.
func place[T any](h *heap[T], v T, at int, belongs bool) {
	switch {
	case belongs && at < 0:
		h.push(v)
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
	next := l.own(now)
	able := l.awake() && l.able(next) && !l.rested()
	if able && (!l.placed() || next < l.departs) {
		l.departs = next
	}
	e.post(l, able, now)
	e.armRipening(l)
}

// rearm finds anew when l can depart: after a visit, by another rule, after a pause.
func (e *Engine) rearm(l *line, now leaky.Instant) {
	l.seat.leave()
	l.departs = l.own(now)
	e.post(l, l.awake() && l.able(l.departs), now)
	e.armRipening(l)
}

// post puts l on the agenda, or among its group, or takes it out.
func (e *Engine) post(l *line, able bool, now leaky.Instant) {
	g := l.kin
	if g == nil {
		place(e.agendaOf(l), &l.outlet, l.agendaAt, able)
		return
	}
	switch s := &l.seat; {
	case !able:
		s.leave()
	case s.in == nil:
		g.rest(l, l.departs)
	case s.in == &g.resting:
		s.in.fix(s.place)
	}
	e.armGroup(g, now)
}

// placed reports whether something may depart from l, as far as l itself goes.
func (l *line) placed() bool { return l.agendaAt >= 0 || l.seat.in != nil }

func (e *Engine) armRipening(l *line) {
	later := false
	if l.awake() {
		l.ripens, later = l.ripe()
	} else if l.live && l.pause.until != 0 {
		l.ripens, later = l.pause.until, true
	}
	place(e.ripeningOf(l), l, l.ripeningAt, later)
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
func (l *line) awake() bool { return l.live && l.pause.since == 0 }

// due arms l after jobs came to it, and wakes the watcher when it would look too
// late.
func (e *Engine) due(l *line, now leaky.Instant) {
	e.arm(l, now)
	e.wakeForLine(l, now)
}

func (e *Engine) wakeForLine(l *line, now leaky.Instant) {
	switch at, any := l.wanted(); {
	case !any:
	case l.spec.Pull:
		e.wakePullers(l, at, now)
	default:
		e.wakeFor(at, now)
	}
}

// wanted returns when l should be looked at, or its group.
func (l *line) wanted() (at leaky.Instant, any bool) {
	o := &l.outlet
	if l.kin != nil {
		o = &l.kin.outlet
	}
	switch {
	case o.agendaAt >= 0 && l.ripeningAt >= 0:
		return min(o.departs, l.ripens), true
	case o.agendaAt >= 0:
		return o.departs, true
	case l.ripeningAt >= 0:
		return l.ripens, true
	}
	return 0, false
}

// ripen puts scheduled jobs whose time has come back at their turn, in a bounded
// number of queues. A queue of which nothing could depart can from when the first of
// them was due, or of its lanes, or its pause ended.
func (e *Engine) ripen(now leaky.Instant) {
	var later []*line
	for len(later) < ripenQueues && e.ripening.len() > 0 && e.ripening.top().ripens <= now {
		l := e.ripening.pop()
		later = append(later, l)
		if l.busy == nil { // else whoever is changing it arms it
			e.ripenLine(l, now)
		}
	}
	for _, l := range later {
		e.armRipening(l)
	}
}

func (e *Engine) ripenLine(l *line, now leaky.Instant) {
	first := l.ripens
	for n := 0; l.awake() && n < ripenMax && l.later.len() > 0 && l.later.top().due <= now; n++ {
		e.ripened(l.later.pop(), now)
	}
	if l.awake() && !l.placed() && l.able(l.own(now)) {
		l.departs = l.own(first)
		e.post(l, true, now)
	}
}

// ripened lets a scheduled job wait. One that was never granted needs its flight no more.
func (e *Engine) ripened(f *flight, now leaky.Instant) {
	e.wait(f.job, now)
	if f.attempts == 0 && f.verdict == 0 {
		f.job.flight = nil
	}
}
