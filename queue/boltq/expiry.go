package boltq

import (
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// expireMax is how many jobs expire in one call. The rest is left to the next, which is not long in coming.
const expireMax = 100

// expiryIndex finds the jobs of a queue that expire.
type expiryIndex struct {
	expiries      map[uint64]leaky.Instant // of all jobs that expire, by seq
	deadlines     sorted[deadline]         // of the idle ones
	firstDeadline leaky.Instant            // the first of those
	expiringIndex int                      // its place in Engine.expiring; -1 is none
}

// deadline is when an idle job expires.
type deadline struct {
	at  leaky.Instant
	job *job
}

func byDeadline(a, b deadline) bool { return a.at < b.at || a.at == b.at && a.job.id < b.job.id }

// newExpiring orders queues by their first deadline.
func newExpiring() heap[*queueState] {
	return heap[*queueState]{
		less: func(a, b *queueState) bool {
			if a.firstDeadline != b.firstDeadline {
				return a.firstDeadline < b.firstDeadline
			}
			return a.number < b.number
		},
		moved: func(q *queueState, i int) { q.expiringIndex = i },
	}
}

// trackDeadline adds the deadline of a job that becomes idle to its queue, or removes it.
func (m *machine) trackDeadline(j *job, idle bool) {
	if j.marks&expires == 0 {
		return
	}
	q := j.lane.queue
	d := deadline{q.expiries[j.seq], j}
	if idle {
		q.deadlines.push(d)
	} else {
		q.deadlines.remove(d)
	}
	m.armExpiring(q)
}

func (m *machine) armExpiring(q *queueState) {
	some := q.deadlines.len() > 0
	if some {
		q.firstDeadline = q.deadlines.top().at
	}
	updateHeap(&m.expiring, q, q.expiringIndex, some)
}

// wakeForExpiry wakes the watcher if j is now the first job of its queue to expire.
func (m *machine) wakeForExpiry(j *job, now leaky.Instant) {
	if q := j.lane.queue; j.marks&expires != 0 && q.deadlines.top().job == j {
		m.wakeFor(q.firstDeadline, now)
	}
}

// expire ends expired jobs, of whatever queue.
func (m *machine) expire(now leaky.Instant) *call {
	c := newCall()
	var busy []*queueState
	for c.enqueued < expireMax && m.expiring.len() > 0 && m.expiring.top().firstDeadline <= now && m.room.full == nil {
		q := m.expiring.top()
		if q.busy != nil { // what becomes of it is being decided
			busy = append(busy, m.expiring.pop())
			continue
		}
		for c.enqueued < expireMax && q.expiringIndex >= 0 && q.firstDeadline <= now {
			m.endIdle(q.deadlines.top().job, queue.Expired, c, now)
		}
		m.arm(q, now)
	}
	for _, q := range busy {
		m.armExpiring(q)
	}
	return c
}

// afterExpiry wraps decide so that expired jobs end before the first item is decided.
func afterExpiry[T any](m *machine, one func(T, *call, leaky.Instant) *call) func(T, *call, leaky.Instant) *call {
	var first *call
	return func(item T, c *call, now leaky.Instant) *call {
		if first == nil {
			first = m.expire(now)
		}
		if first.pending > 0 {
			return first
		}
		return one(item, c, now)
	}
}

// untilExpiry is how long until somebody should end expired jobs. Jobs that expire shortly after one another end
// together.
func (m *machine) untilExpiry(now leaky.Instant) time.Duration {
	if m.expiring.len() == 0 || m.room.full != nil {
		return maxSleep
	}
	if first := m.expiring.top().firstDeadline; first > now {
		return max(first.Sub(now), queue.Horizon/2)
	}
	return 0
}

// expired ends j, the first of its lane, if it expires before it could depart; that uses no slot. The grant is
// answered only after that is on disk, so that a client sees what became of the jobs ahead of its own. more is
// false if the rest is for another Reserve to decide.
func (m *machine) expired(j *job, departs leaky.Instant, g *grant, now leaky.Instant) (gone, more bool) {
	if j.marks&expires == 0 || j.lane.queue.expiries[j.seq] >= departs {
		return false, true
	}
	if g.expired == expireMax || g.noRoom {
		return false, false
	}
	if g.expireCall == nil {
		g.expireCall = newCall()
	}
	g.expired++
	m.endIdle(j, queue.Expired, g.expireCall, now)
	return true, true
}
