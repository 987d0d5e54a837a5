package boltq

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// change is one thing to put on disk. All but write run under the engine's
// mutex; write runs in the committer's transaction and may be repeated in
// another one.
type change interface {
	// tally adds to what the batch changes in its queues' records.
	tally(b *batch)
	// write puts it into the transaction.
	write(t *tables) error
	// done applies it in memory: it is on disk.
	done(e *Engine, now leaky.Instant)
	// undone gives up what was reserved: it is not on disk.
	undone(e *Engine, err error)
	// frees reports whether it makes room: such changes are tried again alone
	// when a commit fails for want of room.
	frees() bool
}

// appending puts a new job in.
type appending struct {
	call   *call
	job    *job
	record []byte
	answer *queue.Appended
	raise  raises
	risk   risk
	bill   *bill // nil if no rules were asked
}

func (c *appending) tally(b *batch) {
	b.of(c.job.lane.line).counters.appended++
	b.raise(c.job.lane.line, c.raise)
	c.bill.with(b)
}

func (c *appending) write(t *tables) error { return t.putJob(c.job, c.record) }

func (c *appending) done(e *Engine, now leaky.Instant) {
	j, l := c.job, c.job.lane.line
	j.busy = nil
	if e.arrive(j, now) { // one that could depart before keeps the instant
		e.due(l, now)
	}
	*c.answer = queue.Appended{Outcome: queue.Accepted, ID: j.id, State: j.state, ETA: l.expected(j, c.risk, now), Rules: c.bill.paid()}
	if j.state == queue.Waiting {
		c.answer.Position = int64(j.lane.fifo.rank(j)) + 1
	}
	c.call.settle(nil)
}

func (c *appending) undone(e *Engine, err error) {
	now := e.now()
	e.exit(c.job, now)
	c.bill.unpaid(now)
	*c.answer = queue.Appended{Outcome: queue.Failed, ID: c.job.id, Err: err}
	c.call.settle(err)
}

func (c *appending) frees() bool { return false }

// repeating answers for a job that came earlier in the same call.
type repeating struct {
	call  *call
	entry *entry
	job   *job
}

func (c *repeating) tally(*batch) {}

func (c *repeating) write(*tables) error { return nil }

func (c *repeating) done(e *Engine, _ leaky.Instant) {
	l := c.job.lane.line
	if l.jobs[c.job.id] != c.job { // it could not be stored, or is gone again
		c.undone(e, queue.ErrOutcomeUnknown)
		return
	}
	c.entry.found(c.job, 0)
	c.call.settle(nil)
}

func (c *repeating) undone(_ *Engine, err error) {
	c.entry.answer.Outcome, c.entry.answer.Err = queue.Failed, err
	c.call.settle(err)
}

func (c *repeating) frees() bool { return false }

// outcome is the part that the changes which end a lease have in common.
type outcome struct {
	call    *call
	job     *job
	at      leaky.Instant
	answer  *queue.Settled // of the settlement; nil when the lease ran out
	expired func()         // the lease ran out; else nil
	visits  bool           // the Reserve that found so goes on to the queue
	failed  bool           // for a reason
	reason  string
	effect  queue.Effect // on the queue
	down    bool         // a failure that is the fault of a target that is down
	unused  bool         // the job did not even start
	probe   bool         // of an open circuit, and answered with trouble
	// What was heard of the receiver before the settlement, and after it.
	before, after heard
	// told is what it says of the rate, and from and to what that is by it, behind all before in the batch.
	told     told
	from, to *adapted
}

// tally counts what is counted for every lease that ends.
func (o *outcome) tally(b *batch) *delta {
	d := b.of(o.job.lane.line)
	if o.expired != nil {
		d.counters.expired++
	}
	if o.failed {
		d.fail(o.at, o.job.id, o.reason)
	}
	o.from, o.to = d.adapt(o.told, o.job.flight.due, o.at)
	return d
}

func (o *outcome) done(e *Engine, s queue.State, now leaky.Instant) {
	o.job.busy = nil
	if o.answer != nil {
		*o.answer = queue.Settled{State: s, Effect: o.effect}
		if o.to != o.from {
			e.adapt(o.job.lane.line, o.to, now)
			if o.from.Rate != o.to.Rate {
				o.answer.Effect.From, o.answer.Effect.To = o.from.Rate, o.to.Rate
			}
		}
	}
	if o.expired != nil {
		o.expired()
	}
	o.call.settle(nil)
}

// undone leaves the lease as it was; one that ran out still has.
func (o *outcome) undone(e *Engine, err error) {
	o.job.busy = nil
	e.unheard(o.job.lane.line, o.before, o.after)
	if o.job.flight.place < 0 {
		e.leases.push(o.job.flight)
	}
	if o.answer != nil {
		*o.answer = queue.Settled{Err: err}
	}
	o.call.settle(err)
}

func (o *outcome) frees() bool { return true }

// unlease takes a job out of the leases, where it may not be any more.
func (e *Engine) unlease(j *job) {
	if f := j.flight; f.place >= 0 {
		e.leases.remove(f.place)
	}
}

// ending ends a leased job.
type ending struct {
	outcome
	end  *ended
	past []byte // the timeline of a dead one
}

func (c *ending) tally(b *batch) {
	d := c.outcome.tally(b)
	if c.end.state == queue.Delivered {
		d.counters.delivered++
	} else {
		d.counters.died++
	}
}

func (c *ending) write(t *tables) error {
	if c.end.state == queue.Delivered {
		if err := t.dropJob(c.job.seq); err != nil {
			return err
		}
	}
	if c.job.flight.saved {
		if err := t.dropFlight(c.job.seq); err != nil {
			return err
		}
	}
	return t.putEnded(c.job.lane.line, c.end, c.past)
}

func (c *ending) done(e *Engine, now leaky.Instant) {
	j, l := c.job, c.job.lane.line
	e.unlease(j)
	freed := e.land(j, c.end.state, now)
	e.vacate(j, now)
	e.remember(l, c.end, now)
	if c.visits {
		e.arm(l, now)
	} else if freed || c.expired != nil {
		e.due(l, now)
	}
	e.tellRoom(l, now)
	c.outcome.done(e, c.end.state, now)
}

// returning puts a leased job back: to wait at its turn when its lease ran out or the receiver did
// not take it, to be scheduled when it failed, or to be held.
type returning struct {
	outcome
	to    flight // the flight as it will be
	state queue.State
}

func (c *returning) tally(b *batch) {
	d := c.outcome.tally(b)
	switch {
	case c.expired != nil || c.state == queue.Held:
	case c.to.verdict == queue.Throttle:
		d.counters.throttled++
	case c.to.verdict == queue.Down || c.down:
		d.counters.down++
	default:
		d.counters.retried++
	}
}

func (c *returning) write(t *tables) error { return t.putFlight(c.job.seq, c.state, &c.to) }

func (c *returning) done(e *Engine, now leaky.Instant) {
	j, l := c.job, c.job.lane.line
	e.unlease(j)
	c.giveBack(now)
	counts := j.flight.counts
	*j.flight = c.to
	j.flight.place, j.flight.saved, j.flight.counts = -1, true, counts
	look := true
	switch c.state {
	case queue.Scheduled:
		e.land(j, queue.Scheduled, now)
		l.later.push(j.flight)
	case queue.Held:
		look = e.land(j, queue.Held, now) || c.expired != nil
		l.held.push(j.flight)
	default:
		e.wait(j, now)
	}
	if c.expired == nil && idle(c.state) {
		e.heed(j, now)
	}
	if due := c.to.due; c.expired == nil && c.to.verdict == queue.Throttle && due != 0 {
		c.effect.Stopped = j.lane.putOff(due, c.at)
	}
	if c.visits {
		e.arm(l, now)
	} else if look {
		e.due(l, now)
	}
	e.tellRoom(l, now)
	c.outcome.done(e, c.state, now)
}

// giveBack gives back what a job took that did not start: to quotas, and its departure. Where the circuit is off it does
// not: nothing else bounds how often the target is tried. A probe gives back to quotas.
func (c *returning) giveBack(now leaky.Instant) {
	l, f := c.job.lane.line, c.job.flight
	if c.expired != nil || l.busy != nil {
		return
	}
	switch {
	case c.unused && !l.spec.Circuit.Off:
		l.regain(f, int64(c.job.cost), now)
	case c.probe:
		l.uncount(f, int64(c.job.cost), now)
	}
	if c.unused {
		l.outflow.add(now, -1)
	}
}

// raising lifts a queue's ceiling.
type raising struct {
	call *call
	line *line
	to   ceilings
}

func (c *raising) tally(b *batch) { b.of(c.line).raise(c.to) }

func (c *raising) write(*tables) error { return nil } // goes with the queue's record

func (c *raising) done(*Engine, leaky.Instant) { c.call.settle(nil) }

func (c *raising) undone(_ *Engine, err error) { c.call.settle(err) }

func (c *raising) frees() bool { return true }
