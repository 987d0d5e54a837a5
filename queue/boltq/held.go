package boltq

import (
	"context"
	"strings"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// lend puts a lease on file: when the process dies, the job may have been sent. The grant is not
// answered before.
func (e *Engine) lend(g *grant, j *job) {
	if g.lending == nil {
		g.lending = newCall()
	}
	j.flight.lent, j.flight.saved = true, true // whoever ends it, in the same commit even, drops the record
	e.enqueue(g.lending, &lending{call: g.lending, job: j, as: *j.flight})
}

// lending is a lease on its way to disk.
type lending struct {
	call *call
	job  *job
	as   flight
}

func (c *lending) tally(*batch) {}

func (c *lending) write(t *tables) error { return t.putFlight(c.job.seq, queue.Leased, &c.as) }

func (c *lending) done(*Engine, leaky.Instant) { c.call.settle(nil) }

func (c *lending) undone(_ *Engine, err error) { c.call.settle(err) }

func (c *lending) frees() bool { return true }

// releasing gives back a job whose lease is on file: one that was not sent must not be held.
type releasing struct{ outcome }

func (c *releasing) tally(b *batch) { c.outcome.tally(b) }

func (c *releasing) write(t *tables) error {
	to := *c.job.flight
	to.settled, to.verdict, to.result = to.fence, queue.Release, queue.Waiting
	return t.putFlight(c.job.seq, queue.Waiting, &to)
}

func (c *releasing) done(e *Engine, now leaky.Instant) {
	c.job.flight.lent = false
	e.release(c.job, now)
	c.outcome.done(e, queue.Waiting, now)
}

// takeBackLent takes back the leases that the file had when it was opened. What cannot be taken back now, for want of
// room, the next Reserve takes back.
func (e *Engine) takeBackLent(ctx context.Context) error {
	for {
		var queues []string
		e.mu.Lock()
		c := e.takeBack(e.now(), nil, &queues)
		e.mu.Unlock()
		if c.sent == 0 {
			return nil
		}
		if err := c.await(ctx); err != nil {
			return err
		}
		if c.err != nil {
			e.log.Warn("jobs that were leased when the store was closed are not taken back yet", "error", c.err)
			return nil
		}
	}
}

// decision is one job of a Decide.
type decision struct {
	queue, id string
	verdict   queue.Verdict
	reason    string
	act       *jobAct
	state     queue.State
	err       error
}

// Decide implements queue.Keeper.
func (e *Engine) Decide(ctx context.Context, name string, ids []string, v queue.Verdict, reason string) ([]queue.State, error) {
	if _, err := e.the(ctx, name, ids, false, queue.DidDecide); err != nil {
		return nil, err
	}
	if err := queue.ValidateDecision(ids, v, reason); err != nil {
		return nil, err
	}
	by, err := queue.By(ctx)
	if err != nil {
		return nil, err
	}
	items, d := make([]*decision, len(ids)), &jobAct{what: queue.DidDecide, by: by, detail: v.Decides().String(), reason: strings.Clone(reason)}
	for i, id := range ids {
		items[i] = &decision{queue: name, id: id, verdict: v, reason: d.reason, act: d}
	}
	if err := rounds(ctx, e, items, e.rule); err != nil {
		return nil, err
	}
	states := make([]queue.State, len(ids))
	for i, k := range items {
		if k.err != nil {
			return nil, k.err
		}
		states[i] = k.state
	}
	return states, nil
}

// rule carries a decision about a job out, unless it depends on changes under way.
func (e *Engine) rule(k *decision, c *call, now leaky.Instant) (busy *call) {
	l := e.lines[k.queue]
	if l == nil {
		k.err = unknownQueue(k.queue)
		return nil
	}
	if busy := l.deciding(k.id); busy != nil {
		return busy
	}
	j := l.jobs[k.id]
	if j == nil {
		k.state = e.gone(l, k.id, now)
		return nil
	}
	if k.state = j.state; j.state != queue.Held {
		return nil
	}
	j.busy = c
	if k.verdict == queue.Release {
		e.enqueue(c, &letting{call: c, job: j, asked: k, at: now})
		return nil
	}
	state := queue.Delivered
	if k.verdict == queue.Bury {
		state = queue.Dead
	}
	f, d := j.flight, e.epitaph(j, state, now)
	d.attempts, d.fence, d.verdict, d.result = f.attempts, f.settled, f.verdict, f.result
	if k.reason != "" {
		d.reason = k.reason
	}
	e.enqueue(c, &ruling{call: c, job: j, end: d, asked: k})
	return nil
}

// gone is where a job is that holds no place in a queue.
func (e *Engine) gone(l *line, id string, now leaky.Instant) queue.State {
	if d := l.ended.find(id, l.spec.Retention, now); d != nil {
		return d.state
	}
	switch _, d := l.deferral(id, now); {
	case d == nil:
	case d.state == called:
		return queue.Cancelled
	default:
		return queue.Deferred
	}
	if e.letter(l.spec.Name, id, now) != nil { // of a former queue
		return queue.Dead
	}
	return queue.StateNone
}

// ruling ends a held job.
type ruling struct {
	call  *call
	job   *job
	end   *ended
	asked *decision
}

func (c *ruling) tally(b *batch) {
	if d := b.of(c.job.lane.line); c.end.state == queue.Dead {
		d.counters.died++
	} else {
		d.counters.delivered++
	}
	l := c.job.lane.line
	b.did(c.asked.act, l.spec.Name, l.revision, c.end.id, false, c.end.at)
}

func (c *ruling) write(t *tables) error {
	var past []byte
	if c.end.state == queue.Dead {
		past = c.job.flight.past
	} else if err := t.dropJob(c.job.seq); err != nil {
		return err
	}
	if err := t.dropFlight(c.job.seq); err != nil {
		return err
	}
	return t.putEnded(c.job.lane.line, c.end, past)
}

func (c *ruling) done(e *Engine, now leaky.Instant) {
	j, l := c.job, c.job.lane.line
	j.busy = nil
	l.held.remove(j.flight)
	e.land(j, c.end.state, now)
	e.vacate(j, now)
	e.remember(l, c.end, now)
	e.tellRoom(l, now)
	c.asked.state = c.end.state
	c.call.settle(nil)
}

func (c *ruling) undone(_ *Engine, err error) {
	c.job.busy, c.asked.err = nil, err
	c.call.settle(err)
}

func (c *ruling) frees() bool { return true }

// letting lets a held job wait again.
type letting struct {
	call  *call
	job   *job
	asked *decision
	at    leaky.Instant
}

func (c *letting) tally(b *batch) {
	l := c.job.lane.line
	b.did(c.asked.act, l.spec.Name, l.revision, c.job.id, false, c.at)
}

func (c *letting) write(t *tables) error {
	to := *c.job.flight
	to.due = 0
	return t.putFlight(c.job.seq, queue.Waiting, &to)
}

func (c *letting) done(e *Engine, now leaky.Instant) {
	j, l := c.job, c.job.lane.line
	j.busy = nil
	l.held.remove(j.flight)
	e.wait(j, now)
	e.heed(j, now)
	e.due(l, now)
	c.asked.state = queue.Waiting
	c.call.settle(nil)
}

func (c *letting) undone(_ *Engine, err error) {
	c.job.busy, c.asked.err = nil, err
	c.call.settle(err)
}

func (c *letting) frees() bool { return true }
