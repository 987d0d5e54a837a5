package boltq

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// leaseOutcome is the part that the changes which end a lease have in common.
type leaseOutcome struct {
	call      *call
	job       *job
	at        leaky.Instant
	answer    *queue.Settled // of the settlement; nil when the lease ran out
	onExpired func()         // the lease ran out; else nil
	visited   bool           // the Reserve that found so goes on to the queue
	failed    bool           // for a reason
	reason    string
	effect    queue.Effect // on the queue
	down      bool         // a failure that is the fault of a target that is down
	unused    bool         // the job did not even start
	probe     bool         // of an open circuit, and answered with trouble
	// What was heard of the receiver before the settlement, and after it.
	before, after receiverState
	// signal is what it says of the rate, and from and to what that is by it, behind all before in the batch.
	signal   rateSignal
	from, to *adaptedRate
}

// prepare counts what is counted for every lease that ends.
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

func (o *leaseOutcome) apply(e *Engine, s queue.State, now leaky.Instant) {
	o.job.busy = nil
	if o.answer != nil {
		*o.answer = queue.Settled{State: s, Effect: o.effect}
		if o.to != o.from {
			e.setAdaptedRate(o.job.lane.queue, o.to, now)
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

// rollBack leaves the lease as it was; one that ran out still has.
func (o *leaseOutcome) rollBack(e *Engine, err error) {
	o.job.busy = nil
	e.revertReceiver(o.job.lane.queue, o.before, o.after)
	if o.job.lease.heapIndex < 0 {
		e.leases.push(o.job.lease)
	}
	if o.answer != nil {
		*o.answer = queue.Settled{Err: err}
	}
	o.call.finish(err)
}

func (o *leaseOutcome) freesSpace() bool { return true }

// endChange ends a leased job.
type endChange struct {
	leaseOutcome
	ended    *endedJob
	timeline []byte // the timeline of a dead one
}

func (c *endChange) prepare(b *batch) {
	d := c.leaseOutcome.prepare(b)
	if c.ended.state == queue.Delivered {
		d.counters.Delivered++
	} else {
		d.counters.Died++
	}
}

func (c *endChange) write(t *tables) error {
	if c.ended.state == queue.Delivered {
		if err := t.dropJob(c.job.seq); err != nil {
			return err
		}
	}
	if c.job.lease.onFile {
		if err := t.dropLease(c.job.seq); err != nil {
			return err
		}
	}
	return t.putEnded(c.job.lane.queue, c.ended, c.timeline)
}

func (c *endChange) apply(e *Engine, now leaky.Instant) {
	j, q := c.job, c.job.lane.queue
	e.dropLease(j)
	freed := e.leaveFlight(j, c.ended.state, now)
	e.removeJob(j, now)
	e.rememberEnded(q, c.ended, now)
	if c.visited {
		e.arm(q, now)
	} else if freed || c.onExpired != nil {
		e.armAndWake(q, now)
	}
	e.announceRoom(q, now)
	c.leaseOutcome.apply(e, c.ended.state, now)
}

// returnChange puts a leased job back: to wait at its turn when its lease ran out or the receiver did
// not take it, to be scheduled when it failed, or to be held.
type returnChange struct {
	leaseOutcome
	next  lease // the flight as it will be
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
}

func (c *returnChange) write(t *tables) error { return t.putLease(c.job.seq, c.state, &c.next) }

func (c *returnChange) apply(e *Engine, now leaky.Instant) {
	j, q := c.job, c.job.lane.queue
	e.dropLease(j)
	c.giveBack(now)
	counts := j.lease.inFlight
	*j.lease = c.next
	j.lease.heapIndex, j.lease.onFile, j.lease.inFlight = -1, true, counts
	look := true
	switch c.state {
	case queue.Scheduled:
		e.leaveFlight(j, queue.Scheduled, now)
		q.scheduled.push(j.lease)
	case queue.Held:
		look = e.leaveFlight(j, queue.Held, now) || c.onExpired != nil
		q.held.push(j.lease)
	default:
		e.putWaiting(j, now)
	}
	if c.onExpired == nil && idle(c.state) {
		e.wakeForExpiry(j, now)
	}
	if due := c.next.due; c.onExpired == nil && c.next.verdict == queue.Throttle && due != 0 {
		c.effect.Stopped = j.lane.stopUntil(due, c.at)
	}
	if c.visited {
		e.arm(q, now)
	} else if look {
		e.armAndWake(q, now)
	}
	e.announceRoom(q, now)
	c.leaseOutcome.apply(e, c.state, now)
}

// giveBack gives back what a job took that did not start: to quotas, and its departure. Where the circuit is off it does
// not: nothing else bounds how often the target is tried. A probe gives back to quotas.
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

// releaseChange gives back a job whose lease is on file: one that was not sent must not be held.
type releaseChange struct{ leaseOutcome }

func (c *releaseChange) prepare(b *batch) { c.leaseOutcome.prepare(b) }

func (c *releaseChange) write(t *tables) error {
	to := *c.job.lease
	to.settled, to.verdict, to.result = to.fence, queue.Release, queue.Waiting
	return t.putLease(c.job.seq, queue.Waiting, &to)
}

func (c *releaseChange) apply(e *Engine, now leaky.Instant) {
	c.job.lease.persisted = false
	e.release(c.job, now)
	c.leaseOutcome.apply(e, queue.Waiting, now)
}
