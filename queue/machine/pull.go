package machine

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

// Pull queues stand on an agenda of their own, which no drainer looks at. One is visited when somebody asks for it
// by name. Pullers sleep between requests; pullersAskAt is when the last of them was told to ask again.

// pullState is what a queue knows of those who pull from it.
type pullState struct {
	pullersAskAt leaky.Instant // when they will ask next
	lastAsked    leaky.Instant // when they last did; 0 if not since the file was opened
}

// agendaOf returns the agenda for a queue.
func (m *Machine) agendaOf(q *queueState) *heap[*agendaEntry] {
	if q.spec.Pull {
		return &m.pulled
	}
	return &m.agenda
}

func (m *Machine) timersOf(q *queueState) *heap[*queueState] {
	if q.spec.Pull {
		return &m.pulledTimers
	}
	return &m.timers
}

// takeOffAgenda takes a queue off its agenda before it moves to the other one.
func (m *Machine) takeOffAgenda(q *queueState) {
	updateHeap(m.agendaOf(q), &q.agendaEntry, q.agendaIndex, false)
	updateHeap(m.timersOf(q), q, int(q.timerIndex), false)
}

// pullQueueOf returns the queue that a request names, nil if it names none. A repeated request is answered even if
// the queue is no pull queue any more.
func (m *Machine) pullQueueOf(r *queue.ReserveRequest, fresh bool) (*queueState, error) {
	if r.Queue == "" {
		return nil, nil
	}
	q := m.queues[r.Queue]
	switch {
	case q == nil:
		return nil, fmt.Errorf("%w: %s", queue.ErrUnknownQueue, r.Queue)
	case fresh && !q.spec.Pull:
		return nil, queue.NotPulled(r.Queue)
	}
	return q, nil
}

// grantPulled visits a pull queue.
func (m *Machine) grantPulled(g *grant, q *queueState, now leaky.Instant) {
	if g.full {
		return
	}
	ripe := q.timerIndex >= 0 && q.timerAt <= now
	if ripe {
		m.readyScheduled(q, becomeReadyMax, now)
	}
	if q.agendaIndex >= 0 && q.departsAt <= now.Add(queue.Horizon) && !g.barred {
		m.visitQueue(q, g, now)
		m.rearm(q, now)
	} else if ripe {
		m.armTimer(q)
	}
}

// untilPulled is how long pullers should wait before they ask again.
func (m *Machine) untilPulled(q *queueState, g *grant, now leaky.Instant) time.Duration {
	next := maxSleep
	if q.agendaIndex >= 0 {
		next = min(next, g.asksFor(q.departsAt).Sub(now))
	}
	if q.timerIndex >= 0 {
		next = min(next, q.timerAt.Sub(now))
	}
	next = max(min(next, m.untilLeaseOrExpiry(now)), minSleep)
	if g.full && q.agendaIndex >= 0 && q.departsAt <= now.Add(queue.Horizon) {
		next = 0
	}
	q.pullersAskAt = now.Add(next)
	return g.sleeps(next)
}

// wakePullers wakes the pullers of a queue if they would look later than at. They are then taken to ask at once.
func (m *Machine) wakePullers(q *queueState, at, now leaky.Instant) {
	if at < q.pullersAskAt {
		q.pullersAskAt = now
		m.wakeups = append(m.wakeups, queue.Wakeup{Queue: q.name})
	}
}

// checkPullRelations returns an error if a spec would make a pull queue a parent or a child.
func (m *Machine) checkPullRelations(s *queue.Spec) error {
	if parent := m.queues[names.Parent(s.Name)]; parent != nil && parent.spec.Pull {
		return s.PullChild()
	}
	if !s.Pull {
		return nil
	}
	if n := m.children[s.Name]; n > 0 {
		return s.PullParent(n)
	}
	return nil
}
