package machine

import (
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
)

const (
	refileAt  = 10 * time.Millisecond // so far the clocks move apart before queues are filed anew
	refileMax = 100                   // queues that a call files anew
)

// refiling files queues anew. Their places on the agenda and among the timers are instants of the engine's clock,
// though some wait for an instant of the wall clock. So they hold while the difference of the two stays as it is.
type refiling struct {
	filedAhead leaky.Instant // Environment.Ahead, as of when the places were worked out
	filedAt    leaky.Instant // when that was, if it has changed
	toRefile   bool          // some are still as of before
	refiled    string        // the last queue that was filed anew
}

// fileAgain files some queues anew, if the difference of the clocks has changed: all of them, bit by bit.
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

// hasQuota reports whether one of the limits is a quota.
func (p *paces) hasQuota() bool {
	return slices.ContainsFunc(p.limits, func(m limit) bool { return !m.Paced() })
}

// fileOne files a queue sooner, if what it waits for by the wall clock has come nearer. What has moved away is found
// out when the queue is looked at.
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
	case !q.hasQuota():
	case q.isParent():
		m.armGroup(q.group, now)
	case opens < q.departsAt && (q.agendaIndex >= 0 || q.member != nil && q.member.in == &q.group.resting):
		q.departsAt = opens
		m.putOnAgenda(q, true, now)
		m.wakeToLook(q, opens, now)
	}
}

// wakeToLook wakes those who would look at a queue later than at an instant.
func (m *Machine) wakeToLook(q *queueState, at, now leaky.Instant) {
	if q.spec.Pull {
		m.wakePullers(q, at, now)
	} else {
		m.wakeFor(at, now)
	}
}
