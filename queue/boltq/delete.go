package boltq

import (
	"context"
	"fmt"
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/changekind"
)

// Delete implements queue.Specs.
func (e *Engine) Delete(ctx context.Context, name string, expect int64, force bool) error {
	actor, err := queue.ActorOf(ctx)
	if err != nil {
		return err
	}
	return e.decide(ctx, name, func(q *queueState, now leaky.Instant) (change, error) {
		switch {
		case q == nil:
			return nil, unknownQueue(name)
		case expect != queue.AnyRevision && expect != q.revision:
			return nil, fmt.Errorf("%w: %s is at revision %d, not %d", queue.ErrRevision, name, q.revision, expect)
		case e.children[name] > 0:
			return nil, fmt.Errorf("%w: %s has %d", queue.ErrHasChildren, name, e.children[name])
		case !force && q.size() > 0:
			return nil, fmt.Errorf("%w: %s has %d", queue.ErrNotEmpty, name, q.size())
		case !force && q.hasBacklog():
			return nil, fmt.Errorf(
				"%w: %s has %d deferred", queue.ErrNotEmpty, name, q.onOverflow()+q.overflow.deferring,
			)
		}
		c := &deleteChange{
			queue: q, left: q.atRest(now), mayHaveDead: e.deadCountOf(name) > 0 || q.importing.mark != "",
		}
		n := loggedBy(changekind.Deleted, actor, q.revision, now)
		n.before, _ = queue.EncodeSpec(q.spec) // it was encoded before
		c.notes = append(q.pauseLapsed(now), n)
		c.matters = c.left.stillDelays(now)
		return c, nil
	})
}

// deleteChange deletes a queue. Its jobs' records become garbage, which is swept in pieces.
type deleteChange struct {
	call  *call
	queue *queueState
	left  paces
	// matters: left can still delay something.
	matters     bool
	mayHaveDead bool // dead jobs outlive their queue
	notes       []logged
}

func (c *deleteChange) bind(call *call) *queueState { c.call = call; return c.queue }

func (c *deleteChange) prepare(b *batch) {
	d := b.deltaOf(c.queue)
	d.gone = true
	c.mayHaveDead = c.mayHaveDead || c.queue.saved.Died+d.counters.Died > 0
	b.logChange(logUpdate{subject: queueSubject(c.queue.spec.Name), changes: c.notes, gone: true})
	b.dropQueue(c.queue.number)
	if c.mayHaveDead {
		b.putRetention(c.queue.spec.Name, c.queue.spec.Retention)
	}
	if c.matters {
		b.putLeftPaces(c.queue.spec.Name, &c.left)
	}
}

func (c *deleteChange) apply(e *Engine, now leaky.Instant) {
	q := c.queue
	q.busy, q.live, q.gone = nil, false, true
	e.countRuleUses(&q.spec, -1)
	e.rulesVersion++
	e.leaveGroup(q, now)
	e.arm(q, now) // takes it off the agenda
	e.countChild(q.spec.Name, -1)
	for s, n := range q.counts {
		e.counts[s] -= n
	}
	e.trackBacklog(q)
	name := q.spec.Name
	if c.mayHaveDead {
		retention := q.spec.Retention
		e.deadJobsOf(name).retention = &retention
	}
	if c.matters {
		e.leftPaces[name] = c.left
	}
	delete(e.queues, name)
	if at, found := slices.BinarySearch(e.queueNames, name); found {
		e.queueNames = slices.Delete(e.queueNames, at, at+1)
	}
	e.discardQueue(q)
	c.call.finish(nil)
}

func (c *deleteChange) rollBack(e *Engine, err error) {
	c.queue.busy = nil
	e.arm(c.queue, e.now())
	c.call.finish(err)
}

func (c *deleteChange) freesSpace() bool { return true }
