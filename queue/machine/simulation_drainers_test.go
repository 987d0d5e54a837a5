package machine

import (
	"fmt"
	"time"

	window "github.com/penstock/penstock/internal/departure"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// simDrainer takes jobs at their departures, as package drain does. Some drainers are far away.
type simDrainer struct {
	*simulation
	name        string
	life        int // number of processes so far
	alive       bool
	frozenUntil leaky.Instant
	busy        int
	far         time.Duration // added latency of answers
	clock       *window.Clock
	request     queue.ReserveRequest
	repeat      bool // the reply to the last request was lost
}

const simHandlers = 8

func (d *simDrainer) begin() {
	d.life++
	d.alive, d.busy, d.repeat, d.clock, d.far = true, 0, false, new(window.Clock), 0
	if d.IntN(6) == 0 {
		d.far = d.upTo(40 * time.Millisecond)
	}
	d.request.Client = queue.Client{ID: fmt.Sprint(d.name, ".", d.life), Name: d.name, Version: "1"}
	d.reserve()
}

func (d *simDrainer) die() {
	d.note("%s dies", d.name)
	d.alive = false
	d.simulation.later(d.upTo(5*time.Second), d.begin)
}

// later does something unless the process has died by then. While the process is frozen, it waits.
func (d *simDrainer) later(after time.Duration, do func()) {
	life := d.life
	d.simulation.later(after, func() { d.unlessDead(life, do) })
}

func (d *simDrainer) unlessDead(life int, do func()) {
	switch {
	case d.life != life || !d.alive:
	case d.frozenUntil > d.at:
		d.simulation.later(d.frozenUntil.Sub(d.at), func() { d.unlessDead(life, do) })
	default:
		do()
	}
}

func (d *simDrainer) reserve() {
	if !d.repeat {
		d.request.Number++
		d.request.Max = simHandlers - d.busy
		if d.clock.Resync(d.at.Time()) {
			d.request.Max = 0
		}
		d.request = d.clock.Request(d.request, d.at.Time())
	}
	d.repeat = false
	c := &simReserve{of: d, asked: d.at, life: d.life}
	d.later(d.upTo(time.Millisecond), func() { d.do(c) }) // the way there
}

// simReserve is one call of Reserve.
type simReserve struct {
	of    *simDrainer
	asked leaky.Instant
	life  int
	now   leaky.Instant // when it was decided
	order int           // number of the decision
	*Granting
}

func (c *simReserve) decide(now leaky.Instant) (wait uint64, err error) {
	c.of.decisions++
	c.now, c.order = now, c.of.decisions
	if c.Granting, err = c.of.store.Reserve(now, c.of.request); err != nil {
		return 0, err
	}
	if c.of.reserved(c.grant.jobs); c.order%16 == 0 {
		c.of.checkRamps(now)
	}
	return c.Wait, nil
}

// undone notes that the granted jobs may not hold: others may have passed them.
func (c *simReserve) undone() {
	for _, g := range c.grant.jobs {
		c.of.job(g.job.id).left = true
	}
}

func (c *simReserve) holds(live bool) {
	if !live {
		c.undone()
		return
	}
	for i := range c.grant.jobs {
		c.of.granted(&c.grant.jobs[i], c.order, c.now)
	}
	c.of.operations += len(c.grant.jobs)
}

func (c *simReserve) answered(err error) {
	d := c.of
	switch {
	case err != nil || c.Empty():
		d.unlessDead(c.life, func() { d.reply(c, err) })
	case d.IntN(8) == 0: // others decide while the store reads the jobs
		process := d.store
		d.simulation.later(d.upTo(3*time.Millisecond), func() {
			if process.dead {
				d.unlessDead(c.life, func() { d.reply(c, queue.ErrOutcomeUnknown) })
			} else {
				c.read()
			}
		})
	default:
		c.read()
	}
}

// read adds the jobs to the answer.
func (c *simReserve) read() {
	d := c.of
	d.store.read(c.Read)
	if bad := d.store.Jobs(d.store.now(), c.Granting); len(bad) > 0 {
		d.fail("%v cannot be read", bad)
	}
	d.unlessDead(c.life, func() { d.reply(c, nil) })
}

// reply delivers the answer.
func (d *simDrainer) reply(c *simReserve, err error) {
	if d.life != c.life {
		return
	}
	d.later(d.far+d.upTo(2*time.Millisecond), func() {
		if err != nil || d.chance(200) {
			d.note("%s has no reply: %v", d.name, err)
			d.repeat = true
			d.later(d.upTo(200*time.Millisecond), d.reserve)
			return
		}
		d.clock.Observe(c.Reserved.Now, c.asked.Time(), d.at.Time())
		for i := range c.Reserved.Jobs {
			r := &c.Reserved.Jobs[i]
			d.take(r, d.clock.Window(c.Reserved.Now.Add(r.In), r.Lease))
		}
		next := min(c.Next, 2*time.Second)
		if d.busy >= simHandlers {
			next = 20 * time.Millisecond
		}
		d.later(next+d.upTo(50*time.Millisecond), d.reserve)
	})
}

// take waits for a job's window.
func (d *simDrainer) take(r *queue.Reservation, w window.Window) {
	d.busy++
	until, j := instantOf(w.Latest(simSlack)), d.job(r.ID)
	if string(r.Payload) != r.ID || r.Cost != j.Cost || r.Lane != j.Lane || !j.hasCosts(r.Costs) {
		d.fail("%s comes out as %+v", j, r)
	}
	c := &simSettle{of: d, job: j, fence: parseFence(r.Fence), life: d.life}
	c.Settlement.Lease = queue.Lease{Queue: r.Queue, ID: r.ID, Fence: r.Fence}
	d.later(max(0, w.DepartsBy.Sub(d.at.Time())), func() {
		if d.at >= until || d.chance(300) {
			if c.Verdict = queue.Release; d.chance(30) {
				c.Verdict, c.Unused = queue.Down, true
			}
			c.settle()
			return
		}
		if d.traced {
			d.note("%s starts %s", d.name, j)
		}
		d.started(j.of, r.Cost)
		d.startedUnder(j.of.ramp, j, c.fence)
		if j.of.spec.Estimate != nil {
			c.used = d.startedWith(j.of, r.Lane, r.Costs["tokens"])
		}
		took := d.upTo(300 * time.Millisecond)
		if d.chance(50) {
			if took = d.upTo(4 * time.Second); took > time.Second && d.IntN(2) == 0 { // longer than the lease, now and then
				d.later(time.Second, func() { d.do(&simExtend{of: d, job: j, settling: c}) })
			}
		}
		c.decideVerdict()
		c.decideActual()
		d.later(took, c.settle)
	})
}

// simSettle is one settlement.
type simSettle struct {
	queue.Settlement
	of     *simDrainer
	life   int
	job    *simJob
	fence  fence
	used   *simTokenUse // nil unless the job costs tokens
	minute *simMinute   // to which it returns a departure; nil if to none
	begun  bool         // it was decided at least once
	own    bool         // the job has this lease, which was not settled when this was decided
	valid  bool         // and has not run out
	answer queue.Settled
	first  simSettled
}

func (c *simSettle) decideVerdict() {
	c.Verdict = queue.Deliver
	if !c.of.faults {
		return
	}
	switch d := c.of; d.IntN(40) {
	case 0, 1:
		c.Verdict, c.After, c.Trouble = queue.Fail, d.upTo(5*time.Second), d.IntN(2) == 0
	case 2:
		c.Verdict = queue.Bury
	case 3:
		c.Verdict, c.After = queue.Throttle, d.upTo(2*time.Second)
	case 4:
		c.Verdict = queue.Down
	case 5:
		c.Verdict = queue.Hold
	}
}

// decideActual decides what a job has used of tokens: sometimes more than its charge, which jobs after it pay.
func (c *simSettle) decideActual() {
	if d := c.of; c.used != nil && d.IntN(3) > 0 {
		c.Actual = map[string]int64{"tokens": d.Int64N(simMaxTokens * 3 / 2)}
	}
}

func (c *simSettle) settle() {
	c.of.operations++
	c.of.do(c)
	if c.of.chance(50) { // another call sees the job before that is durable
		c.of.lookFor(c.job, nil)
	}
}

func (c *simSettle) decide(now leaky.Instant) (uint64, error) {
	c.begun = true
	c.own = c.job.lease.fence == c.fence && !c.job.lease.over
	c.valid = c.own && c.of.leased(c.job, now)
	if cost, stated := c.Actual["tokens"]; stated {
		c.used.tokens = min(c.used.tokens, cost)
	}
	c.minute = c.job.of.ramp.returns(c)
	list := [1]queue.Settlement{c.Settlement}
	answers, wait := c.of.store.Settle(now, list[:])
	c.answer = answers[0]
	return wait, nil
}

func (c *simSettle) holds(bool) {
	c.of.settled(c)
	if c.minute != nil {
		c.minute.open--
	}
}

func (c *simSettle) undone() {}

func (c *simSettle) answered(err error) {
	d := c.of
	d.unlessDead(c.life, func() {
		if d.traced {
			d.note("%s settles %s %v: %v %v", d.name, c.job, c.Verdict, c.answer.State, err)
		}
		if err != nil || d.chance(200) {
			d.later(d.upTo(500*time.Millisecond), c.settle)
			return
		}
		d.busy--
	})
}

// simExtend extends one lease. After a failed commit it may be decided after the settlement.
type simExtend struct {
	of       *simDrainer
	job      *simJob
	settling *simSettle
}

func (c *simExtend) decide(now leaky.Instant) (uint64, error) {
	d := c.of
	own := !c.job.lease.over && c.job.lease.process == d.store && c.job.lease.fence == c.settling.fence
	valid := own && !c.settling.begun && d.leased(c.job, now) // else it stands until it is taken back
	answers, wait := d.store.Extend(now, []queue.Lease{c.settling.Settlement.Lease})
	left := answers[0].Left
	if valid && left < simLeaseFor || left > 0 && !own {
		d.fail("the lease of %s is extended by %v, and was valid: %v", c.job, left, valid)
	}
	if left > 0 {
		c.job.lease.deadline = now.Add(left)
	}
	return wait, nil
}

func (c *simExtend) holds(bool) {}

func (c *simExtend) undone() {}

func (c *simExtend) answered(error) {}
