package boltq

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// leaseOutcome is what all changes that end a lease share.
type leaseOutcome struct {
	call      *call
	job       *job
	at        leaky.Instant
	answer    *queue.Settled // of the settlement; nil if the lease ran out
	onExpired func()         // called if the lease ran out; else nil
	visited   bool           // the Reserve that found the lease over visits the queue anyway
	failed    bool           // reason says why
	reason    string
	effect    queue.Effect // on the queue, for the answer
	down      bool         // a failure that counts as the target's fault
	unused    bool         // the job did not even start
	probe     bool         // it was a probe of an open circuit, and met trouble
	// The receiver's state before and after the settlement.
	before, after receiverState
	// signal is what the settlement says about the adapted rate, which goes from one to the other behind all
	// earlier changes of the batch.
	signal   rateSignal
	from, to *adaptedRate
}

// prepare counts what every end of a lease counts.
func (o *leaseOutcome) prepare(b *batch) *queueDelta {
	d := b.deltaOf(o.job.lane.queue)
	if o.onExpired != nil {
		d.counters.Expired++
	}
	if o.failed {
		d.addFailure(o.at, o.job.id, o.reason)
	}
	o.from, o.to = d.adapt(o.signal, o.job.lease.due, o.at)
	return d
}

func (o *leaseOutcome) apply(m *machine, s queue.State) {
	o.job.busy = nil
	if o.answer != nil {
		*o.answer = queue.Settled{State: s, Effect: o.effect}
		if o.to != o.from {
			m.adaptedTo = append(m.adaptedTo, adaptedTo{o.job.lane.queue, o.to})
			if o.from.Rate != o.to.Rate {
				o.answer.Effect.From, o.answer.Effect.To = o.from.Rate, o.to.Rate
			}
		}
	}
	if o.onExpired != nil {
		o.onExpired()
	}
	o.call.finish(nil)
}

// rollBack leaves the lease as it was: one that ran out still has.
func (o *leaseOutcome) rollBack(m *machine, now leaky.Instant, err error) {
	o.job.busy = nil
	m.revertReceiver(o.job.lane.queue, o.before, o.after, now)
	if o.job.lease.heapIndex < 0 {
		m.leases.push(o.job.lease)
	}
	if o.answer != nil {
		*o.answer = queue.Settled{Err: err}
	}
	o.call.finish(err)
}

func (o *leaseOutcome) freesSpace() bool { return true }

// endChange ends a leased job as delivered or dead.
type endChange struct {
	leaseOutcome
	ended    *endedJob
	timeline []byte // of a dead job
}

func (c *endChange) prepare(b *batch) {
	d := c.leaseOutcome.prepare(b)
	if c.ended.state == queue.Delivered {
		d.counters.Delivered++
	} else {
		d.counters.Died++
	}
	if c.ended.state == queue.Delivered {
		b.dropJob(c.job.seq)
	}
	if c.job.lease.onFile {
		b.dropLease(c.job.seq)
	}
	b.putEnded(c.job.lane.queue, c.ended, c.timeline)
}

func (c *endChange) apply(m *machine, now leaky.Instant) {
	j, q := c.job, c.job.lane.queue
	m.dropLease(j)
	freed := m.leaveFlight(j, c.ended.state, now)
	m.removeJob(j, now)
	m.rememberEnded(q, c.ended, now)
	if c.visited {
		m.arm(q, now)
	} else if freed || c.onExpired != nil {
		m.armAndWake(q, now)
	}
	m.announceRoom(q, now)
	c.leaseOutcome.apply(m, c.ended.state)
}

// returnChange puts a leased job back: to wait at its turn if its lease ran out or the receiver did not take it, to
// be scheduled if it failed, or to be held.
type returnChange struct {
	leaseOutcome
	next  lease // the lease as it will be
	state queue.State
}

func (c *returnChange) prepare(b *batch) {
	d := c.leaseOutcome.prepare(b)
	switch {
	case c.onExpired != nil || c.state == queue.Held:
	case c.next.verdict == queue.Throttle:
		d.counters.Throttled++
	case c.next.verdict == queue.Down || c.down:
		d.counters.Down++
	default:
		d.counters.Retried++
	}
	b.putLease(c.job.seq, c.state, &c.next)
}

func (c *returnChange) apply(m *machine, now leaky.Instant) {
	j, q := c.job, c.job.lane.queue
	m.dropLease(j)
	c.giveBack(now)
	counts := j.lease.inFlight
	*j.lease = c.next
	j.lease.heapIndex, j.lease.onFile, j.lease.inFlight = -1, true, counts
	look := true
	switch c.state {
	case queue.Scheduled:
		m.leaveFlight(j, queue.Scheduled, now)
		q.scheduled.push(j.lease)
	case queue.Held:
		look = m.leaveFlight(j, queue.Held, now) || c.onExpired != nil
		q.held.push(j.lease)
	default:
		m.putWaiting(j, now)
	}
	if c.onExpired == nil && idle(c.state) {
		m.wakeForExpiry(j, now)
	}
	if due := c.next.due; c.onExpired == nil && c.next.verdict == queue.Throttle && due != 0 {
		c.effect.Stopped = j.lane.stopUntil(due, c.at)
	}
	if c.visited {
		m.arm(q, now)
	} else if look {
		m.armAndWake(q, now)
	}
	m.announceRoom(q, now)
	c.leaseOutcome.apply(m, c.state)
}

// giveBack gives back what a job took that never started: its departure and its share of quotas. With the circuit
// off nothing is given back, since nothing else bounds how often the target is tried. A probe gives back to quotas
// only.
func (c *returnChange) giveBack(now leaky.Instant) {
	q, ls := c.job.lane.queue, c.job.lease
	if c.onExpired != nil || q.busy != nil {
		return
	}
	switch {
	case c.unused && !q.spec.Circuit.Off:
		q.giveBackDeparture(ls, int64(c.job.cost), now)
	case c.probe:
		q.refundQuotas(ls, int64(c.job.cost), now)
	}
	if c.unused {
		q.outflow.add(now, -1)
	}
}

// releaseChange gives back a job whose lease is on file. Otherwise a restart would hold a job that was never sent.
type releaseChange struct{ leaseOutcome }

func (c *releaseChange) prepare(b *batch) {
	c.leaseOutcome.prepare(b)
	to := *c.job.lease
	to.settled, to.verdict, to.result = to.fence, queue.Release, queue.Waiting
	b.putLease(c.job.seq, queue.Waiting, &to)
}

func (c *releaseChange) apply(m *machine, now leaky.Instant) {
	c.job.lease.persisted = false
	m.release(c.job, now)
	c.leaseOutcome.apply(m, queue.Waiting)
}
