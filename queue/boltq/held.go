package boltq

import (
	"context"
	"strings"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/changekind"
	"github.com/penstock/penstock/queue/internal/check"
)

// decideItem is one job of a Decide.
type decideItem struct {
	queue, id string
	verdict   queue.Verdict
	reason    string
	act       *jobAct
	state     queue.State
	err       error
}

// Decide implements queue.Jobs.
func (e *Engine) Decide(
	ctx context.Context, name string, ids []string, v queue.Verdict, reason string,
) ([]queue.State, error) {
	if _, err := e.newReplayItems(ctx, name, ids, false, changekind.Decided); err != nil {
		return nil, err
	}
	if err := check.Decision(ids, v, reason); err != nil {
		return nil, err
	}
	actor, err := queue.ActorOf(ctx)
	if err != nil {
		return nil, err
	}
	items, d := make([]*decideItem, len(ids)), &jobAct{
		what: changekind.Decided, actor: actor, detail: v.Decides().String(), reason: strings.Clone(reason),
	}
	for i, id := range ids {
		items[i] = &decideItem{queue: name, id: id, verdict: v, reason: d.reason, act: d}
	}
	if err := decideAll(ctx, e, items, e.decideHeld); err != nil {
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

// decideHeld carries out a decision about a held job, unless that depends on a change under way.
func (m *machine) decideHeld(k *decideItem, c *call, now leaky.Instant) (busy *call) {
	q := m.queues[k.queue]
	if q == nil {
		k.err = unknownQueue(k.queue)
		return nil
	}
	if busy := q.changeFor(k.id); busy != nil {
		return busy
	}
	j := q.jobs[k.id]
	if j == nil {
		k.state = m.endedState(q, k.id, now)
		return nil
	}
	if k.state = j.state; j.state != queue.Held {
		return nil
	}
	j.busy = c
	if k.verdict == queue.Release {
		m.enqueue(c, &resumeHeldChange{call: c, job: j, item: k, at: now})
		return nil
	}
	state := queue.Delivered
	if k.verdict == queue.Bury {
		state = queue.Dead
	}
	ls, d := j.lease, m.newEndedJob(j, state, now)
	d.attempts, d.fence, d.verdict, d.result = ls.attempts, ls.settled, ls.verdict, ls.result
	if k.reason != "" {
		d.reason = k.reason
	}
	m.enqueue(c, &endHeldChange{call: c, job: j, ended: d, item: k})
	return nil
}

// endHeldChange ends a held job as delivered or dead.
type endHeldChange struct {
	call  *call
	job   *job
	ended *endedJob
	item  *decideItem
}

func (c *endHeldChange) prepare(b *batch) {
	if d := b.deltaOf(c.job.lane.queue); c.ended.state == queue.Dead {
		d.counters.Died++
	} else {
		d.counters.Delivered++
	}
	q := c.job.lane.queue
	b.logJobAct(c.item.act, q.spec.Name, q.revision, c.ended.id, false, c.ended.at)
	var past []byte
	if c.ended.state == queue.Dead {
		past = c.job.lease.timeline
	} else {
		b.dropJob(c.job.seq)
	}
	b.dropLease(c.job.seq)
	b.putEnded(q, c.ended, past)
}

func (c *endHeldChange) apply(m *machine, now leaky.Instant) {
	j, q := c.job, c.job.lane.queue
	j.busy = nil
	q.held.remove(j.lease)
	m.leaveFlight(j, c.ended.state, now)
	m.removeJob(j, now)
	m.rememberEnded(q, c.ended, now)
	m.announceRoom(q, now)
	c.item.state = c.ended.state
	c.call.finish(nil)
}

func (c *endHeldChange) rollBack(_ *machine, _ leaky.Instant, err error) {
	c.job.busy, c.item.err = nil, err
	c.call.finish(err)
}

func (c *endHeldChange) freesSpace() bool { return true }

// resumeHeldChange makes a held job wait again.
type resumeHeldChange struct {
	call *call
	job  *job
	item *decideItem
	at   leaky.Instant
}

func (c *resumeHeldChange) prepare(b *batch) {
	q := c.job.lane.queue
	b.logJobAct(c.item.act, q.spec.Name, q.revision, c.job.id, false, c.at)
	to := *c.job.lease
	to.due = 0
	b.putLease(c.job.seq, queue.Waiting, &to)
}

func (c *resumeHeldChange) apply(m *machine, now leaky.Instant) {
	j, q := c.job, c.job.lane.queue
	j.busy = nil
	q.held.remove(j.lease)
	m.putWaiting(j, now)
	m.wakeForExpiry(j, now)
	m.armAndWake(q, now)
	c.item.state = queue.Waiting
	c.call.finish(nil)
}

func (c *resumeHeldChange) rollBack(_ *machine, _ leaky.Instant, err error) {
	c.job.busy, c.item.err = nil, err
	c.call.finish(err)
}

func (c *resumeHeldChange) freesSpace() bool { return true }
