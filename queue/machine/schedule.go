package machine

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// becomeReadyMax is how many scheduled jobs become ready in one call.
const becomeReadyMax = 100

func newTimers() heap[*queueState] {
	return heap[*queueState]{
		key:   func(q *queueState) heapKey { return heapKey{int64(q.timerAt), q.number} },
		moved: func(q *queueState, i int) { q.timerIndex = int32(i) },
	}
}

// putScheduled puts a job among the scheduled ones of its queue.
func (m *Machine) putScheduled(j *job) {
	m.setState(j, queue.Scheduled)
	pushTo(&j.lane.queue.scheduled, byDue, j.lease)
}

// scheduledUntil is until when, by the wall clock, a new job is scheduled; 0 if it is not.
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

// nextTimer returns when the first scheduled job is due, or the first lane may go on, whichever comes first.
func (q *queueState) nextTimer() (at leaky.Instant, any bool) {
	at, any = q.lanesResumeAt()
	if q.scheduled.len() > 0 {
		if due := q.env.engine(q.scheduled.top().due); !any || due < at {
			return due, true
		}
	}
	return at, any
}

// fireTimers makes due jobs ready, in a bounded number of queues. A queue from which nothing could depart now can
// since the instant at which its timer was due, not since this call: the slots in between count as lost.
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

// readyScheduled makes at most so many of a queue's due jobs ready, and returns how many.
func (m *Machine) readyScheduled(q *queueState, most int, now leaky.Instant) (n int) {
	first := max(q.timerAt, m.filedAt) // before, the wall clock said otherwise
	for ; q.runnable() && n < most && q.scheduled.len() > 0 && q.scheduled.top().due <= m.wall(now); n++ {
		m.becomeReady(q.scheduled.pop(), now)
	}
	if q.runnable() && !q.onAgenda() && q.canDepart(q.memberOpens(now)) {
		q.departsAt = q.memberOpens(first)
		m.putOnAgenda(q, true, now)
	}
	return n
}

// becomeReady makes a scheduled job wait. One that was never granted needs its lease no more.
func (m *Machine) becomeReady(ls *lease, now leaky.Instant) {
	m.putWaiting(ls.job, now)
	if ls.attempts == 0 && ls.verdict == 0 {
		ls.job.lease = nil
	}
}
