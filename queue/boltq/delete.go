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

func (c *deleteChange) apply(m *machine, now leaky.Instant) {
	q := c.queue
	q.busy, q.live, q.gone = nil, false, true
	m.countRuleUses(&q.spec, -1)
	m.rulesVersion++
	m.leaveGroup(q, now)
	m.arm(q, now) // takes it off the agenda
	m.countChild(q.spec.Name, -1)
	for s, n := range q.counts {
		m.counts[s] -= n
	}
	m.trackBacklog(q)
	name := q.spec.Name
	if c.mayHaveDead {
		retention := q.spec.Retention
		m.deadJobsOf(name).retention = &retention
	}
	if c.matters {
		m.leftPaces[name] = c.left
	}
	delete(m.queues, name)
	if at, found := slices.BinarySearch(m.queueNames, name); found {
		m.queueNames = slices.Delete(m.queueNames, at, at+1)
	}
	m.discardQueue(q)
	c.call.finish(nil)
}

func (c *deleteChange) rollBack(m *machine, now leaky.Instant, err error) {
	c.queue.busy = nil
	m.arm(c.queue, now)
	c.call.finish(err)
}

func (c *deleteChange) freesSpace() bool { return true }
