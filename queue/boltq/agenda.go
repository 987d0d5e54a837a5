package boltq

import "github.com/penstock/penstock/leaky"

// agendaEntry is what stands on the agenda: a queue by itself, or a group in place of its queues.
type agendaEntry struct {
	queue       *queueState   // the queue, or the parent
	group       *group        // nil if it is a queue
	departsAt   leaky.Instant // since when, or when, something can
	agendaIndex int           // its place on the agenda; -1 if nothing can
}

// The agenda orders the queues where a job waits by the instant at which it
// became possible that one departs, ties by the order in which they were made.
// Beside it stand the queues with scheduled jobs, by when the first is due, and those
// whose lanes all rest, and paused ones that go on by themselves. Idle queues are on neither, nor
// others that are paused, and cost nothing.

func newAgenda() heap[*agendaEntry] {
	return heap[*agendaEntry]{
		less: func(a, b *agendaEntry) bool {
			if a.departsAt != b.departsAt {
				return a.departsAt < b.departsAt
			}
			return a.queue.number < b.queue.number
		},
		moved: func(o *agendaEntry, i int) { o.agendaIndex = i },
	}
}

// updateHeap puts v where it belongs in a heap after its key may have changed, or
// takes it out.
func updateHeap[T any](h *heap[T], v T, at int, belongs bool) {
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
func (e *Engine) arm(q *queueState, now leaky.Instant) {
	next := q.memberOpens(now)
	able := q.runnable() && q.canDepart(next) && !q.heldUpByLanes()
	if able && (!q.onAgenda() || next < q.departsAt) {
		q.departsAt = next
	}
	e.putOnAgenda(q, able, now)
	e.armTimer(q)
}

// rearm finds anew when l can depart: after a visit, by another rule, after a pause.
func (e *Engine) rearm(q *queueState, now leaky.Instant) {
	q.member.leave()
	q.departsAt = q.memberOpens(now)
	e.putOnAgenda(q, q.runnable() && q.canDepart(q.departsAt), now)
	e.armTimer(q)
}

// putOnAgenda puts l on the agenda, or among its group, or takes it out.
func (e *Engine) putOnAgenda(q *queueState, able bool, now leaky.Instant) {
	g := q.group
	if g == nil {
		updateHeap(e.agendaOf(q), &q.agendaEntry, q.agendaIndex, able)
		return
	}
	switch s := &q.member; {
	case !able:
		s.leave()
	case s.in == nil:
		g.rest(q, q.departsAt)
	case s.in == &g.resting:
		s.in.fix(s.heapIndex)
	}
	e.armGroup(g, now)
}

// onAgenda reports whether something may depart from l, as far as l itself goes.
func (q *queueState) onAgenda() bool { return q.agendaIndex >= 0 || q.member.in != nil }

// runnable reports whether anything may leave.
func (q *queueState) runnable() bool { return q.live && q.pause.since == 0 }

// armAndWake arms l after jobs came to it, and wakes the watcher when it would look too
// late.
func (e *Engine) armAndWake(q *queueState, now leaky.Instant) {
	e.arm(q, now)
	e.wakeForQueue(q, now)
}

func (e *Engine) wakeForQueue(q *queueState, now leaky.Instant) {
	switch at, any := q.lookAt(); {
	case !any:
	case q.spec.Pull:
		e.wakePullers(q, at, now)
	default:
		e.wakeFor(at, now)
	}
}

// lookAt returns when l should be looked at, or its group.
func (q *queueState) lookAt() (at leaky.Instant, any bool) {
	o := &q.agendaEntry
	if q.group != nil {
		o = &q.group.agendaEntry
	}
	switch {
	case o.agendaIndex >= 0 && q.timerIndex >= 0:
		return min(o.departsAt, q.timerAt), true
	case o.agendaIndex >= 0:
		return o.departsAt, true
	case q.timerIndex >= 0:
		return q.timerAt, true
	}
	return 0, false
}
