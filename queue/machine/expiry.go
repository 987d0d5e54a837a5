package machine

import (
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// expireMax is how many jobs expire in one call. The next call, soon after, expires the rest.
const expireMax = 100

// expiryIndex finds the jobs of a queue that expire.
type expiryIndex struct {
	expiries      map[uint64]leaky.Instant // of all jobs that expire, by seq
	deadlines     *sorted[deadline]        // of the idle ones
	firstDeadline leaky.Instant            // the earliest of these
	expiringIndex int                      // index in Machine.expiring; -1 if not there
}

// deadline is when an idle job expires, by the wall clock.
type deadline struct {
	at  leaky.Instant
	job *job
}

func byDeadline(a, b deadline) bool { return a.at < b.at || a.at == b.at && a.job.id < b.job.id }

// newExpiring orders queues by their first deadline.
func newExpiring() heap[*queueState] {
	return heap[*queueState]{
		key:   func(q *queueState) heapKey { return heapKey{int64(q.firstDeadline), q.number} },
		moved: func(q *queueState, i int) { q.expiringIndex = i },
	}
}

// trackDeadline adds the deadline of a job that becomes idle to its queue, or removes it.
func (m *Machine) trackDeadline(j *job, idle bool) {
	if j.marks&expires == 0 {
		return
	}
	q := j.lane.queue
	d := deadline{q.expiries[j.seq], j}
	if idle {
		pushTo(&q.deadlines, byDeadline, d)
	} else {
		q.deadlines.remove(d)
	}
	m.armExpiring(q)
}

func (m *Machine) armExpiring(q *queueState) {
	some := q.deadlines.len() > 0
	if some {
		q.firstDeadline = q.deadlines.top().at
	}
	updateHeap(&m.expiring, q, q.expiringIndex, some)
}

// wakeForExpiry wakes the watcher if j is now the first job of its queue to expire.
func (m *Machine) wakeForExpiry(j *job, now leaky.Instant) {
	if q := j.lane.queue; j.marks&expires != 0 && q.deadlines.top().job == j {
		m.wakeFor(m.engine(q.firstDeadline), now)
	}
}

// expire ends expired jobs of all queues, and returns how many.
func (m *Machine) expire(now leaky.Instant) (n int) {
	for n < expireMax && m.expiring.len() > 0 && m.expiring.top().firstDeadline <= m.wall(now) && m.Full == nil {
		q, freed := m.expiring.top(), false
		for ; n < expireMax && q.expiringIndex >= 0 && q.firstDeadline <= m.wall(now); n++ {
			freed = m.endIdle(q.deadlines.top().job, queue.Expired, now) || freed
		}
		if m.arm(q, now); freed {
			m.wakeForQueue(q, now)
		}
		m.announceRoom(q, now)
	}
	return n
}

// untilExpiry returns how long until expired jobs should be ended. Jobs that expire shortly after one another end
// together.
func (m *Machine) untilExpiry(now leaky.Instant) time.Duration {
	if m.expiring.len() == 0 || m.Full != nil {
		return maxSleep
	}
	if first := m.engine(m.expiring.top().firstDeadline); first > now {
		return max(first.Sub(now), queue.Horizon/2)
	}
	return 0
}

// expired ends j, the first job of its lane, if it expires before it could depart; that uses no slot. If the store is
// full, j leaves its lane while the request is decided, so that it blocks no other job. more is false if the rest is
// left to the next Reserve.
func (m *Machine) expired(j *job, departs leaky.Instant, g *grant, now leaky.Instant) (gone, more bool) {
	if j.marks&expires == 0 || j.lane.queue.expiries[j.seq] >= m.wall(departs) {
		return false, true
	}
	if g.expired+len(g.unended) >= expireMax {
		return false, false
	}
	if g.noRoom {
		j.lane.queue.removeWaiting(j)
		g.unended = append(g.unended, j)
		return true, true
	}
	g.expired++
	g.wait = m.wait() // a grant must not be answered while the expiry of jobs ahead could still vanish
	m.endIdle(j, queue.Expired, now)
	m.announceRoom(j.lane.queue, now)
	return true, true
}

// putBack puts expired jobs that could not be ended back into their lanes. They end when there is room.
func (m *Machine) putBack(g *grant, now leaky.Instant) {
	for _, j := range g.unended {
		q := j.lane.queue
		q.placeLane(j.lane, q.pushWaiting(j), now)
	}
	g.unended = nil
}
