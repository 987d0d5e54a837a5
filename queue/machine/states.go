package machine

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// setState moves a job to another state and keeps all counts in step.
func (m *Machine) setState(j *job, to queue.State) {
	for _, c := range []*[queue.Expired + 1]int64{&m.counts, &j.lane.queue.counts} {
		if j.state != queue.StateNone {
			c[j.state]--
		}
		if !to.Ended() {
			c[to]++
		}
	}
	if j.lease != nil {
		j.lane.trackInFlight(j.lease, to)
	}
	if idle(j.state) != idle(to) {
		m.trackDeadline(j, idle(to))
	}
	if q := j.lane.queue; q.group != nil {
		if j.state == queue.Waiting {
			q.group.addWaiting(q, -1)
		}
		if to == queue.Waiting {
			q.group.addWaiting(q, 1)
		}
	}
	j.state = to
}

// idle reports whether jobs in that state wait, for their turn or for an instant.
func idle(s queue.State) bool { return s == queue.Waiting || s == queue.Scheduled }

// putWaiting puts a job among the waiting ones of its lane, and reports whether the lane had none.
func (m *Machine) putWaiting(j *job, now leaky.Instant) (first bool) {
	q := j.lane.queue
	first = q.pushWaiting(j)
	m.setState(j, queue.Waiting)
	q.placeLane(j.lane, first, now)
	return first
}

// leaveFlight takes a leased job to a state other than waiting, and reports whether that unblocked its lane or its
// queue.
func (m *Machine) leaveFlight(j *job, to queue.State, now leaky.Instant) (freed bool) {
	q := j.lane.queue
	m.holdLane(j.lane)
	crowded := q.atMaxInFlight()
	m.setState(j, to)
	return q.unblock(j.lane, now) || crowded && !q.atMaxInFlight()
}

// holdLane has the grants of a lane of an ordered queue wait for the present commit, in which a lease of one of its
// jobs ends: were that undone, two would be in flight. A lane that is forgotten meanwhile needs no hold: its next job
// comes with the same commit or a later one.
func (m *Machine) holdLane(ln *lane) {
	if q := ln.queue; q.spec.Ordered {
		m.holdGrants(heldGrants{q, ln})
	}
}

// enterLane makes a job visible whose commit is durable.
func (m *Machine) enterLane(a *arrival, now leaky.Instant) {
	j, q := a.job, a.job.lane.queue
	if !q.live || q.jobs[j.id] != j { // it has ended before, or its queue has
		return
	}
	if a.imported && a.state == queue.Held {
		q.incoming.all--
		j.lease = a.lease
		m.setState(j, queue.Held)
		pushTo(&q.held, byDue, j.lease)
		return
	}
	if a.holdsLane && j.lease != nil {
		j.lease.inFlight = true
		j.lane.inFlight++
	}
	q.removeIncoming(j)
	first := true
	if j.lease == nil {
		first = m.putWaiting(j, now)
	} else {
		m.putScheduled(j)
	}
	m.wakeForExpiry(j, now)
	switch ls := a.lease; {
	case ls != nil && j.lease != nil:
		j.lease.attempts, j.lease.reason, j.lease.timeline, j.lease.onFile = ls.attempts, ls.reason, ls.timeline, true
	case ls != nil:
		j.lease = ls
	}
	if first { // else one was there before, and the queue's instant stands
		m.armAndWake(q, now)
	}
}
