package machine

import (
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// schedules orders queues by when they need attention.
type schedules struct {
	agenda heap[*agendaEntry]
	// timers has the queues that wait for a known instant: a scheduled job, the end of a pause, or a resting lane.
	timers heap[*queueState]
	// pulled and pulledTimers are the same for pull queues.
	pulled       heap[*agendaEntry]
	pulledTimers heap[*queueState]
	expiring     heap[*queueState] // queues with idle jobs that expire
}

// agendaEntry is an entry of the agenda: a single queue, or a group in place of its members.
type agendaEntry struct {
	queue       *queueState   // the queue, or the group's parent
	group       *group        // nil for a queue without a group
	departsAt   leaky.Instant // since when, or from when on, a job can depart
	agendaIndex int           // index in the agenda; -1 if nothing can depart
}

// The agenda orders queues with waiting jobs by the instant of their next possible departure; ties go to the older
// queue. Queues that only wait for an instant (scheduled jobs, resting lanes, pauses with an end) are among the timers.
// Idle queues, and queues paused without an end, are in neither and cost nothing.

func newAgenda() heap[*agendaEntry] {
	return heap[*agendaEntry]{
		key:   func(o *agendaEntry) heapKey { return heapKey{int64(o.departsAt), o.queue.number} },
		moved: func(o *agendaEntry, i int) { o.agendaIndex = i },
	}
}

// updateHeap pushes v onto a heap, moves it after its key changed, or removes it.
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

// arm updates when q can next depart after its jobs changed. While q stays on the agenda, an earlier instant stands:
// slots since then count as lost, whatever comes back later. A queue that its lanes hold up stays among the timers.
func (m *Machine) arm(q *queueState, now leaky.Instant) {
	next := q.memberOpens(now)
	able := q.runnable() && q.canDepart(next) && !q.heldUpByLanes(now)
	if able && (!q.onAgenda() || next < q.departsAt) {
		q.departsAt = next
	}
	m.putOnAgenda(q, able, now)
	m.armTimer(q)
}

// memberOpened is memberOpens as seen from another instant, by the hours that are known now: before these, the queue
// counts as closed.
func (q *queueState) memberOpened(at, now leaky.Instant) leaky.Instant {
	if q.isParent() {
		return q.memberOpens(at)
	}
	return q.hours.next(max(q.paces.opens(at), q.receiver.stop), now)
}

// rearm recomputes when q can next depart: after a visit, a change of its spec, or a pause. Earlier slots do not count
// as lost.
func (m *Machine) rearm(q *queueState, now leaky.Instant) {
	if !q.isPullChild() { // which keeps its claim
		q.member.leave()
	}
	q.departsAt = q.memberOpens(now)
	m.putOnAgenda(q, q.runnable() && q.canDepart(q.departsAt), now)
	m.armTimer(q)
}

// putOnAgenda puts q on the agenda or into its group's heaps, or removes it if it is not able to depart.
func (m *Machine) putOnAgenda(q *queueState, able bool, now leaky.Instant) {
	g := q.group
	if g == nil || q.spec.Pull {
		updateHeap(m.agendaOf(q), &q.agendaEntry, q.agendaIndex, able)
		if g != nil && !able {
			q.member.leave()
		}
		if g != nil && g.slotBack {
			m.armGroup(g, now)
			if g.agendaIndex >= 0 {
				m.wakeFor(g.departsAt, now)
			}
		}
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

// onAgenda reports whether something may depart from q, as far as q itself is concerned.
func (q *queueState) onAgenda() bool {
	return q.agendaIndex >= 0 || q.member != nil && q.member.in != nil
}

// runnable reports whether the queue exists and is not paused.
func (q *queueState) runnable() bool { return q.live && q.pause.since == 0 }

// armAndWake arms q after it received jobs, and wakes the watcher if it would look too late.
func (m *Machine) armAndWake(q *queueState, now leaky.Instant) {
	m.arm(q, now)
	m.wakeForQueue(q, now)
}

func (m *Machine) wakeForQueue(q *queueState, now leaky.Instant) {
	if at, any := q.lookAt(now); any {
		m.wakeToLook(q, at, now)
	}
}

// lookAt returns when q, or its group, should be visited next.
func (q *queueState) lookAt(now leaky.Instant) (at leaky.Instant, any bool) {
	at, any = q.departsAt, q.agendaIndex >= 0
	if q.isPullChild() {
		at, any = q.pullsFrom(now)
	} else if q.group != nil {
		at, any = q.group.departsAt, q.group.agendaIndex >= 0
	}
	switch {
	case any && q.timerIndex >= 0:
		return min(at, q.timerAt), true
	case q.timerIndex >= 0:
		return q.timerAt, true
	}
	return at, any
}

const becomeReadyMax = 100

func newTimers() heap[*queueState] {
	return heap[*queueState]{
		key:   func(q *queueState) heapKey { return heapKey{int64(q.timerAt), q.number} },
		moved: func(q *queueState, i int) { q.timerIndex = int32(i) },
	}
}

func (m *Machine) putScheduled(j *job) {
	m.setState(j, queue.Scheduled)
	pushTo(&j.lane.queue.scheduled, byDue, j.lease)
}

// scheduledUntil returns until when, by the wall clock, a new job is scheduled, or 0.
func scheduledUntil(j *queue.Job, wall leaky.Instant) leaky.Instant {
	if at := instantOf(j.NotBefore); at > wall {
		return at
	}
	return 0
}

func (m *Machine) armTimer(q *queueState) {
	later := false
	if q.runnable() {
		q.timerAt, later = q.nextTimer()
	} else if q.live && q.pause.until != 0 {
		q.timerAt, later = m.engine(q.pause.until), true
	}
	updateHeap(m.timersOf(q), q, int(q.timerIndex), later)
}

// nextTimer returns when the first scheduled job is due or the first lane may go on, whichever comes first.
func (q *queueState) nextTimer() (at leaky.Instant, any bool) {
	at, any = q.lanesResumeAt()
	if q.scheduled.len() > 0 {
		if due := q.env.engine(q.scheduled.top().due); !any || due < at {
			return due, true
		}
	}
	return at, any
}

// fireTimers makes due jobs ready, in a limited number of queues. A queue from which nothing could depart counts as
// able to depart since its timer was due, not since this call: the slots in between are lost.
func (m *Machine) fireTimers(now leaky.Instant) {
	var later []*queueState
	left := becomeReadyMax
	for len(later) < queue.MaxVisits && left > 0 && m.timers.len() > 0 && m.timers.top().timerAt <= now {
		q := m.timers.pop()
		later = append(later, q)
		left -= m.readyScheduled(q, left, now)
	}
	for _, q := range later {
		m.armTimer(q)
	}
}

// readyScheduled makes a queue's due jobs ready, up to the limit most, and returns how many.
func (m *Machine) readyScheduled(q *queueState, most int, now leaky.Instant) (n int) {
	first := max(q.timerAt, m.filedAt) // before filedAt, the jobs were not due by the wall clock
	for ; q.runnable() && n < most && q.scheduled.len() > 0 && q.scheduled.top().due <= m.wall(now); n++ {
		m.becomeReady(q.scheduled.pop(), now)
	}
	if q.runnable() && !q.onAgenda() && q.canDepart(q.memberOpens(now)) {
		q.departsAt = q.memberOpened(first, now)
		m.putOnAgenda(q, true, now)
	}
	return n
}

// becomeReady makes a scheduled job wait. A job that was never granted needs its lease no more.
func (m *Machine) becomeReady(ls *lease, now leaky.Instant) {
	m.putWaiting(ls.job, now)
	if ls.attempts == 0 && ls.verdict == 0 {
		ls.job.lease = nil
	}
}

const (
	refileAt  = 10 * time.Millisecond // how far the clocks move apart before queues are refiled
	refileMax = 100                   // queues that one call refiles
)

// refiling recomputes the places of queues. Places on the agenda and among the timers are instants of the engine's
// clock, although some wait for an instant of the wall clock. So the places hold only while the difference of the
// clocks stays the same.
type refiling struct {
	filedAhead leaky.Instant // Environment.Ahead as of when the places were computed
	filedAt    leaky.Instant // when that was, if it has changed
	toRefile   bool          // some queues are still to be refiled
	refiled    string        // the last queue refiled
}

// fileAgain refiles some queues if the difference of the clocks has changed; repeated calls refile all of them.
func (m *Machine) fileAgain(now leaky.Instant) {
	by := m.Ahead - m.filedAhead
	if !m.toRefile && max(by, -by) < leaky.Instant(refileAt.Microseconds()) {
		return
	}
	if by != 0 {
		m.filedAhead, m.filedAt, m.toRefile, m.refiled = m.Ahead, now, true, ""
	}
	n := 0
	for name := range m.namesBehind(m.refiled) {
		if n == refileMax {
			break
		}
		n++
		m.refiled = name
		m.fileOne(m.queues[name], now)
	}
	m.toRefile = n == refileMax
}

// followsWall reports whether the wall clock decides when jobs leave.
func (p *paces) followsWall() bool {
	return p.hours != nil || slices.ContainsFunc(p.limits, func(l limit) bool { return l.HasQuota() })
}

// fileOne files a queue sooner if what it waits for by the wall clock has come nearer. If it has moved away, a visit
// finds that out.
func (m *Machine) fileOne(q *queueState, now leaky.Instant) {
	at, any := m.engine(q.pause.until), q.pause.until != 0
	if q.runnable() && q.scheduled.len() > 0 {
		at, any = m.engine(q.scheduled.top().due), true
	}
	if any && at < q.timerAt {
		q.timerAt = at
		updateHeap(m.timersOf(q), q, int(q.timerIndex), true)
		m.wakeToLook(q, at, now)
	}
	switch opens := q.memberOpens(now); {
	case !q.followsWall():
	case q.isParent():
		m.armGroup(q.group, now)
	case opens < q.departsAt && (q.agendaIndex >= 0 || q.member != nil && q.member.in == &q.group.resting):
		q.departsAt = opens
		m.putOnAgenda(q, true, now)
		m.wakeToLook(q, opens, now)
	}
}

// wakeToLook wakes the clients that would look at a queue later than at an instant.
func (m *Machine) wakeToLook(q *queueState, at, now leaky.Instant) {
	if q.spec.Pull {
		m.wakePullers(q, at, now)
	} else {
		m.wakeFor(at, now)
	}
}

// Upcoming is what comes next if nobody changes anything.
type Upcoming struct {
	In    time.Duration // until something comes due
	Known bool          // false if nothing will
	Due   bool          // something is due already, and waits for a client that asks
}

// Upcoming returns what comes next: a departure, a scheduled job, the end of a pause or a lease, an expiry. asks tells
// whether a client asks for the jobs of a pull queue or, if its name is empty, of all other queues. Upcoming looks at
// all queues that wait. The engine does not need it; a clock that is advanced in steps does.
func (m *Machine) Upcoming(asks func(pulled string) bool, now leaky.Instant) Upcoming {
	first, due := never, false
	note := func(q *queueState, at leaky.Instant) {
		pulled := ""
		if q.spec.Pull {
			pulled = q.name
		}
		if at > now {
			first = min(first, at)
		} else if !due {
			due = asks(pulled)
		}
	}
	for entry := range m.agenda.all {
		note(entry.queue, entry.departsAt)
	}
	for entry := range m.pulled.all {
		if at, any := entry.queue.pullsFrom(now); any {
			note(entry.queue, at)
		}
	}
	for _, timers := range []*heap[*queueState]{&m.timers, &m.pulledTimers} {
		for q := range timers.all {
			note(q, q.timerAt)
		}
	}
	ends := func(at leaky.Instant) {
		if at > now {
			first = min(first, at)
		}
	}
	for l := range m.leases.all {
		ends(l.deadline)
	}
	for q := range m.expiring.all {
		ends(m.engine(q.firstDeadline))
	}
	return Upcoming{In: first.Sub(now), Known: first != never, Due: due}
}
