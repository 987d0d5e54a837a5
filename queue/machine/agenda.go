package machine

import "github.com/penstock/penstock/leaky"

// schedules orders queues by when something is to be done for them.
type schedules struct {
	agenda heap[*agendaEntry]
	// timers has the queues for which something is due at a known instant: a scheduled job, the end of a pause, a
	// lane that may go on.
	timers heap[*queueState]
	// pulled and pulledTimers are the same for pull queues.
	pulled       heap[*agendaEntry]
	pulledTimers heap[*queueState]
	expiring     heap[*queueState] // queues with idle jobs that expire
}

// agendaEntry is what stands on the agenda: a queue by itself, or a group in place of its members.
type agendaEntry struct {
	queue       *queueState   // the queue itself, or the group's parent
	group       *group        // nil for a queue by itself
	departsAt   leaky.Instant // since when, or from when on, something can depart
	agendaIndex int           // its place on the agenda; -1 if nothing can depart
}

// The agenda orders queues with waiting jobs by the instant from which on one can depart; the older queue goes
// first on ties. What only waits for an instant (scheduled jobs, resting lanes, pauses with an end) stands among
// the timers: see schedule.go. Idle queues, and paused ones without an end, stand in neither and cost nothing.

func newAgenda() heap[*agendaEntry] {
	return heap[*agendaEntry]{
		key:   func(o *agendaEntry) heapKey { return heapKey{int64(o.departsAt), o.queue.number} },
		moved: func(o *agendaEntry, i int) { o.agendaIndex = i },
	}
}

// updateHeap puts v into a heap, moves it after its key changed, or takes it out.
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

// arm works out when q can next depart after its jobs changed. While it stays on the agenda the earlier instant
// stands: slots since then count as lost, whatever comes back meanwhile. The same goes for a queue that its lanes
// hold up, which stays among the timers.
func (m *Machine) arm(q *queueState, now leaky.Instant) {
	next := q.memberOpens(now)
	able := q.runnable() && q.canDepart(next) && !q.heldUpByLanes()
	if able && (!q.onAgenda() || next < q.departsAt) {
		q.departsAt = next
	}
	m.putOnAgenda(q, able, now)
	m.armTimer(q)
}

// rearm works out anew when q can depart: after a visit, a change of its spec, or a pause. Earlier slots are not
// lost.
func (m *Machine) rearm(q *queueState, now leaky.Instant) {
	q.member.leave()
	q.departsAt = q.memberOpens(now)
	m.putOnAgenda(q, q.runnable() && q.canDepart(q.departsAt), now)
	m.armTimer(q)
}

// putOnAgenda puts q on the agenda, or into its group's heaps, or takes it out.
func (m *Machine) putOnAgenda(q *queueState, able bool, now leaky.Instant) {
	g := q.group
	if g == nil {
		updateHeap(m.agendaOf(q), &q.agendaEntry, q.agendaIndex, able)
		return
	}
	switch s := q.member; {
	case !able:
		s.leave()
	case s.in == nil:
		g.rest(q, q.departsAt)
	case s.in == &g.resting:
		s.in.fix(s.heapIndex)
	}
	m.armGroup(g, now)
}

// onAgenda reports whether something may depart from q, as far as q itself goes.
func (q *queueState) onAgenda() bool {
	return q.agendaIndex >= 0 || q.member != nil && q.member.in != nil
}

// runnable reports whether the queue exists and is not paused.
func (q *queueState) runnable() bool { return q.live && q.pause.since == 0 }

// armAndWake arms q after jobs came to it, and wakes the watcher if it would look too late.
func (m *Machine) armAndWake(q *queueState, now leaky.Instant) {
	m.arm(q, now)
	m.wakeForQueue(q, now)
}

func (m *Machine) wakeForQueue(q *queueState, now leaky.Instant) {
	if at, any := q.lookAt(); any {
		m.wakeToLook(q, at, now)
	}
}

// lookAt returns when somebody should look at q, or at its group.
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
