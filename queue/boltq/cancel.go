package boltq

import (
	"context"
	"fmt"
	"strings"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/changekind"
)

// cancelCall is one call of Cancel.
type cancelCall struct {
	queue, id string
	act       jobAct
	state     queue.State
	err       error
}

// Cancel implements queue.Jobs.
func (e *Engine) Cancel(ctx context.Context, name, id string) (queue.State, error) {
	if err := ctx.Err(); err != nil {
		return queue.StateNone, err
	}
	actor, err := queue.ActorOf(ctx)
	if err != nil {
		return queue.StateNone, err
	}
	k := &cancelCall{queue: name, id: id, act: jobAct{what: changekind.Cancelled, actor: actor}}
	if err := decideAll(ctx, e, []*cancelCall{k}, e.cancel); err != nil {
		return queue.StateNone, err
	}
	return k.state, k.err
}

// cancel decides a call, unless that depends on a change under way.
func (m *machine) cancel(k *cancelCall, c *call, now leaky.Instant) (busy *call) {
	q := m.queues[k.queue]
	if q == nil {
		k.err = unknownQueue(k.queue)
		return nil
	}
	if q.busy != nil {
		return q.busy
	}
	if j := q.jobs[k.id]; j != nil {
		if j.busy != nil {
			return j.busy
		}
		if k.state = j.state; j.state == queue.Waiting || j.state == queue.Scheduled {
			w := m.endIdle(j, queue.Cancelled, c, now)
			w.by, w.act, w.named = k, &k.act, true
			m.arm(q, now)
		}
		return nil
	}
	if busy := q.changeOf(k.id); busy != nil {
		return busy
	}
	if d := q.endedJobs.find(k.id, q.spec.Retention, now); d != nil {
		k.state = d.state
		return nil
	}
	number, d := q.deferral(k.id, now)
	switch {
	case d == nil:
		k.err = fmt.Errorf("%w: %s in %s", queue.ErrUnknownJob, queue.Shorten(k.id, 80), k.queue)
	case d.state == cancelledDeferral:
		k.state = queue.Cancelled
	default:
		w := &cancelDeferredChange{
			call: c, queue: q, id: strings.Clone(k.id), number: number, record: *d, by: k, at: now,
		}
		w.record.state = cancelledDeferral
		q.claim(w.id, c)
		m.enqueue(c, w)
	}
	return nil
}

// endIdle ends a job that waits or is scheduled. Until that is on disk it is out of the lane, so that nobody is
// granted it.
func (m *machine) endIdle(j *job, s queue.State, c *call, now leaky.Instant) *endIdleChange {
	if j.state == queue.Scheduled {
		j.lane.queue.scheduled.remove(j.lease)
	} else {
		j.lane.queue.removeWaiting(j)
	}
	m.trackDeadline(j, false)
	j.busy = c
	m.store.ended++
	w := &endIdleChange{call: c, job: j, ended: &endedJob{
		id: j.id, key: m.store.ended, state: s, fingerprint: j.fingerprint, cost: j.cost, appended: j.appended, at: now,
	}}
	if ls := j.lease; ls != nil {
		w.ended.attempts, w.ended.reason = ls.attempts, ls.reason
		w.ended.fence, w.ended.verdict, w.ended.result = ls.settled, ls.verdict, ls.result
	}
	m.enqueue(c, w)
	return w
}

// endIdleChange ends a job that nobody holds: it was cancelled, or has expired.
type endIdleChange struct {
	call  *call
	job   *job
	ended *endedJob
	by    *cancelCall // the Cancel that asked for it, or nil
	act   *jobAct     // to be logged; nil if it has expired
	named bool        // the log names the job
}

func (c *endIdleChange) prepare(b *batch) {
	d := b.deltaOf(c.job.lane.queue)
	if c.ended.state == queue.Cancelled {
		d.counters.Cancelled++
	} else {
		d.counters.TimedOut++
	}
	if c.act != nil {
		q, id := c.job.lane.queue, ""
		if c.named {
			id = c.ended.id
		}
		b.logJobAct(c.act, q.spec.Name, q.revision, id, false, c.ended.at)
	}
	b.dropJob(c.job.seq)
	if ls := c.job.lease; ls != nil && ls.onFile {
		b.dropLease(c.job.seq)
	}
	b.putEnded(c.job.lane.queue, c.ended, nil)
}

func (c *endIdleChange) apply(m *machine, now leaky.Instant) {
	j, q := c.job, c.job.lane.queue
	j.busy = nil
	freed := m.leaveFlight(j, c.ended.state, now)
	m.removeJob(j, now)
	m.rememberEnded(q, c.ended, now)
	if freed {
		m.armAndWake(q, now)
	}
	m.announceRoom(q, now)
	if c.by != nil {
		c.by.state = c.ended.state
	}
	c.call.finish(nil)
}

// rollBack puts the job back where it was.
func (c *endIdleChange) rollBack(m *machine, now leaky.Instant, err error) {
	j, q := c.job, c.job.lane.queue
	j.busy = nil
	if j.state == queue.Scheduled {
		q.scheduled.push(j.lease)
	} else {
		q.placeLane(j.lane, q.pushWaiting(j), now)
	}
	m.trackDeadline(j, true)
	m.armAndWake(q, now)
	if c.by != nil {
		c.by.err = err
	}
	c.call.finish(err)
}

func (c *endIdleChange) freesSpace() bool { return true }

// cancelDeferredChange marks a deferral as cancelled. The job is dropped when it comes back.
type cancelDeferredChange struct {
	call   *call
	queue  *queueState
	id     string
	number uint64
	record deferral // as it will be
	by     *cancelCall
	at     leaky.Instant
}

func (c *cancelDeferredChange) prepare(b *batch) {
	b.deltaOf(c.queue).counters.Cancelled++
	b.logJobAct(&c.by.act, c.queue.spec.Name, c.queue.revision, c.id, false, c.at)
	b.putDeferral(c.queue, c.number, c.id, c.record)
}

func (c *cancelDeferredChange) apply(m *machine, now leaky.Instant) {
	c.queue.unclaim(c.id)
	if d := c.queue.overflow.records.get(c.number); d != nil {
		m.uncountDeferral(c.queue, c.number, d)
		d.state = cancelledDeferral
	}
	m.announceRoom(c.queue, now)
	c.by.state = queue.Cancelled
	c.call.finish(nil)
}

func (c *cancelDeferredChange) rollBack(_ *machine, _ leaky.Instant, err error) {
	c.queue.unclaim(c.id)
	c.by.err = err
	c.call.finish(err)
}

func (c *cancelDeferredChange) freesSpace() bool { return true }
