package boltq

import (
	"context"
	"fmt"
	"strings"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// cancellation is one call of Cancel.
type cancellation struct {
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
	by, err := queue.By(ctx)
	if err != nil {
		return queue.StateNone, err
	}
	k := &cancellation{queue: name, id: id, act: jobAct{what: queue.DidCancel, by: by}}
	if err := rounds(ctx, e, []*cancellation{k}, e.cancel); err != nil {
		return queue.StateNone, err
	}
	return k.state, k.err
}

// cancel decides a cancellation, unless it depends on changes under way.
func (e *Engine) cancel(k *cancellation, c *call, now leaky.Instant) (busy *call) {
	l := e.lines[k.queue]
	if l == nil {
		k.err = unknownQueue(k.queue)
		return nil
	}
	if l.busy != nil {
		return l.busy
	}
	if j := l.jobs[k.id]; j != nil {
		if j.busy != nil {
			return j.busy
		}
		if k.state = j.state; j.state == queue.Waiting || j.state == queue.Scheduled {
			w := e.leave(j, queue.Cancelled, c, now)
			w.asked, w.act, w.named = k, &k.act, true
			e.arm(l, now)
		}
		return nil
	}
	if m := l.moving(k.id); m != nil {
		return m
	}
	if d := l.ended.find(k.id, l.spec.Retention, now); d != nil {
		k.state = d.state
		return nil
	}
	number, d := l.deferral(k.id, now)
	switch {
	case d == nil:
		k.err = fmt.Errorf("%w: %s in %s", queue.ErrUnknownJob, queue.Shorten(k.id, 80), k.queue)
	case d.state == called:
		k.state = queue.Cancelled
	default:
		w := &calling{call: c, line: l, id: strings.Clone(k.id), number: number, record: *d, asked: k, at: now}
		w.record.state = called
		l.start(w.id, c)
		e.enqueue(c, w)
	}
	return nil
}

// leave ends a job that waits or is scheduled. It stands aside until that is on
// disk, so that nobody is granted it.
func (e *Engine) leave(j *job, s queue.State, c *call, now leaky.Instant) *leaving {
	if j.state == queue.Scheduled {
		j.lane.line.later.remove(j.flight)
	} else {
		j.lane.line.desert(j)
	}
	e.mind(j, false)
	j.busy = c
	e.store.ended++
	w := &leaving{call: c, job: j, end: &ended{
		id: j.id, key: e.store.ended, state: s, print: j.print, cost: j.cost, appended: j.appended, at: now,
	}}
	if f := j.flight; f != nil {
		w.end.attempts, w.end.reason = f.attempts, f.reason
		w.end.fence, w.end.verdict, w.end.result = f.settled, f.verdict, f.result
	}
	e.enqueue(c, w)
	return w
}

// leaving ends a job that nobody holds: it was cancelled, or has expired.
type leaving struct {
	call  *call
	job   *job
	end   *ended
	asked *cancellation // of a Cancel
	act   *jobAct       // to be recorded; nil when it has expired
	named bool          // the job is named by it
}

func (c *leaving) tally(b *batch) {
	d := b.of(c.job.lane.line)
	if c.end.state == queue.Cancelled {
		d.counters.cancelled++
	} else {
		d.counters.timedOut++
	}
	if c.act != nil {
		l, id := c.job.lane.line, ""
		if c.named {
			id = c.end.id
		}
		b.did(c.act, l.spec.Name, l.revision, id, false, c.end.at)
	}
}

func (c *leaving) write(t *tables) error {
	if err := t.dropJob(c.job.seq); err != nil {
		return err
	}
	if f := c.job.flight; f != nil && f.saved {
		if err := t.dropFlight(c.job.seq); err != nil {
			return err
		}
	}
	return t.putEnded(c.job.lane.line, c.end, nil)
}

func (c *leaving) done(e *Engine, now leaky.Instant) {
	j, l := c.job, c.job.lane.line
	j.busy = nil
	freed := e.land(j, c.end.state, now)
	e.vacate(j, now)
	e.remember(l, c.end, now)
	if freed {
		e.due(l, now)
	}
	e.tellRoom(l, now)
	if c.asked != nil {
		c.asked.state = c.end.state
	}
	c.call.settle(nil)
}

// undone puts the job back where it was.
func (c *leaving) undone(e *Engine, err error) {
	j, l, now := c.job, c.job.lane.line, e.now()
	j.busy = nil
	if j.state == queue.Scheduled {
		l.later.push(j.flight)
	} else {
		l.place(j.lane, l.stand(j), now)
	}
	e.mind(j, true)
	e.due(l, now)
	if c.asked != nil {
		c.asked.err = err
	}
	c.call.settle(err)
}

func (c *leaving) frees() bool { return true }

// calling marks the record of a deferred job, which is dropped on its way back.
type calling struct {
	call   *call
	line   *line
	id     string
	number uint64
	record deferral // as it will be
	asked  *cancellation
	at     leaky.Instant
}

func (c *calling) tally(b *batch) {
	b.of(c.line).counters.cancelled++
	b.did(&c.asked.act, c.line.spec.Name, c.line.revision, c.id, false, c.at)
}

func (c *calling) write(t *tables) error { return t.putDeferral(c.line, c.number, c.id, c.record) }

func (c *calling) done(e *Engine, now leaky.Instant) {
	c.line.stop(c.id)
	if d := c.line.aside.records.get(c.number); d != nil {
		e.uncount(c.line, c.number, d)
		d.state = called
	}
	e.tellRoom(c.line, now)
	c.asked.state = queue.Cancelled
	c.call.settle(nil)
}

func (c *calling) undone(_ *Engine, err error) {
	c.line.stop(c.id)
	c.asked.err = err
	c.call.settle(err)
}

func (c *calling) frees() bool { return true }
