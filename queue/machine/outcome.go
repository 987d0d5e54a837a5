package machine

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// leaseOutcome is how a lease ends.
type leaseOutcome struct {
	job     *job
	by      *queue.Settlement // nil if it ran out
	visited bool              // the Reserve that found the lease over visits the queue anyway
	down    bool              // a failure that counts as the target's fault
	unused  bool              // the job did not even start
	probe   bool              // it was a probe of an open circuit, and met trouble
}

func (o *leaseOutcome) ranOut() bool { return o.by == nil }

// endLeased ends a leased job as delivered or dead; timeline is that of a dead one.
func (m *Machine) endLeased(o *leaseOutcome, d *endedJob, timeline []byte, now leaky.Instant) queue.State {
	j, q, c := o.job, o.job.lane.queue, m.touch(o.job.lane.queue)
	if d.state == queue.Delivered {
		q.counters.Delivered++
		c.dropJob(j.seq)
	} else {
		q.counters.Died++
	}
	if j.lease.onFile {
		c.dropLease(j.seq)
	}
	c.putEnded(q, d, timeline)
	m.dropLease(j)
	c.endedLeases = append(c.endedLeases, j.lease)
	freed := m.leaveFlight(j, d.state, now)
	m.removeJob(j, now)
	m.rememberEnded(q, d, now)
	m.lookAfter(o, freed || o.ranOut(), now)
	return d.state
}

// returnLeased puts a leased job back: to wait at its turn if its lease ran out or the receiver did not take it
// (invariant 2), to be scheduled if it failed, or to be held.
func (m *Machine) returnLeased(
	o *leaseOutcome, next *lease, to queue.State, effect *queue.Effect, now leaky.Instant,
) queue.State {
	j, q, c := o.job, o.job.lane.queue, m.touch(o.job.lane.queue)
	switch {
	case o.ranOut() || to == queue.Held:
	case next.verdict == queue.Throttle:
		q.counters.Throttled++
	case next.verdict == queue.Down || o.down:
		q.counters.Down++
	default:
		q.counters.Retried++
	}
	c.putLease(j.seq, to, next)
	m.dropLease(j)
	back, given := o.giveBack(now)
	counts, was := j.lease.inFlight, *j.lease
	c.endedLeases = append(c.endedLeases, &was)
	if back.lease = &was; given {
		c.givenBack = append(c.givenBack, back)
	}
	*j.lease = *next
	j.lease.heapIndex, j.lease.onFile, j.lease.inFlight, j.lease.commit = -1, true, counts, c.Number
	look := true
	switch to {
	case queue.Scheduled:
		m.leaveFlight(j, queue.Scheduled, now)
		pushTo(&q.scheduled, byDue, j.lease)
	case queue.Held:
		look = m.leaveFlight(j, queue.Held, now) || o.ranOut()
		pushTo(&q.held, byDue, j.lease)
	default:
		m.holdLane(j.lane)
		m.putWaiting(j, now)
	}
	if !o.ranOut() && idle(to) {
		m.wakeForExpiry(j, now)
	}
	if !o.ranOut() && next.verdict == queue.Throttle && next.due != 0 {
		effect.Stopped = j.lane.stopUntil(next.due, now)
	}
	m.lookAfter(o, look, now)
	return to
}

// lookAfter works out when the queue of a job whose lease ended can next depart.
func (m *Machine) lookAfter(o *leaseOutcome, look bool, now leaky.Instant) {
	q := o.job.lane.queue
	if o.visited {
		m.arm(q, now)
	} else if look {
		m.armAndWake(q, now)
	}
	m.announceRoom(q, now)
}

// giveBack gives back what a job took that never started: its departure and its share of quotas. With the circuit
// off nothing is given back, since nothing else bounds how often the target is tried. A probe gives back to quotas
// only.
func (o *leaseOutcome) giveBack(now leaky.Instant) (b givenBack, given bool) {
	q, ls := o.job.lane.queue, o.job.lease
	switch {
	case o.unused && (o.by.NoTarget || !q.spec.Circuit.Off):
		b, given = q.giveBackDeparture(ls, int64(o.job.cost), now), true
	case o.probe:
		q.refundQuotas(ls, int64(o.job.cost), now)
		given = true
	}
	if o.unused {
		q.outflow.add(now, -1)
	}
	return b, given
}
