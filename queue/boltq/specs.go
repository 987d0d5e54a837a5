package boltq

import (
	"context"
	"fmt"
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// Delete implements queue.Specs.
func (e *Engine) Delete(ctx context.Context, name string, expect int64, force bool) error {
	by, err := queue.By(ctx)
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
			return nil, fmt.Errorf("%w: %s has %d deferred", queue.ErrNotEmpty, name, q.onOverflow()+q.overflow.deferring)
		}
		c := &deleteChange{queue: q, left: q.atRest(now), mayHaveDead: e.deadCountOf(name) > 0 || q.importing.mark != ""}
		c.notes = append(q.pauseLapsed(now), doneNow(queue.Change{At: now.Time(), By: by, What: queue.Deleted, Revision: q.revision, Was: q.revision}))
		c.matters = c.left.stillDelays(now)
		return c, nil
	})
}

// queueChange is a change that concerns a whole queue.
type queueChange interface {
	change
	bind(c *call) *queueState
}

// decide runs a decision about a queue, nil if there is none, once nobody else
// is changing it, and waits for the change that comes of it.
func (e *Engine) decide(ctx context.Context, name string, decision func(*queueState, leaky.Instant) (change, error)) error {
	return decideWhenFree(ctx, func(c *call) (*call, error) { return e.tryDecide(name, c, decision) })
}

// decideWhenFree decides once nobody else is changing what it is about, who that is being what once answers, and waits for the
// change that comes of it.
func decideWhenFree(ctx context.Context, once func(*call) (busy *call, err error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for {
		c := newCall()
		busy, err := once(c)
		switch {
		case err != nil:
			return err
		case busy != nil:
			if err := awaitAll(ctx, []*call{busy}); err != nil {
				return ctx.Err() // nothing of ours is under way
			}
			continue
		}
		if err := c.await(ctx); err != nil {
			return err
		}
		return c.err
	}
}

func (e *Engine) tryDecide(name string, c *call, decision func(*queueState, leaky.Instant) (change, error)) (*call, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.usable(); err != nil {
		return nil, err
	}
	q := e.queues[name]
	if q != nil && q.busy != nil {
		return q.busy, nil
	}
	ch, err := decision(q, e.now())
	if err != nil || ch == nil {
		return nil, err
	}
	ch.(queueChange).bind(c).busy = c
	e.enqueue(c, ch)
	return nil, nil
}

// specChange creates a queue or changes its spec or its pause. Its bucket stands
// still meanwhile, because the queue is busy.
type specChange struct {
	call         *call
	queue        *queueState
	spec         queue.Spec
	revision     int64
	created      bool
	decidedPaces paces         // of a Put, upon the rate as it was
	at           leaky.Instant // of the Put; 0 is none, and the paces are as they are
	paces        paces         // upon what was settled before it
	pause        pause
	receiver     *receiverState // nil if it stays as it is
	putsSpec     bool           // by a Put, and not a pause
	countsRules  bool           // the rules that it names are counted
	endsPause    bool           // a pause whose time has come
	notes        []queue.Change
	text         []byte // the spec as it is kept, if it is another, or has another revision
}

func (c *specChange) bind(call *call) *queueState { c.call = call; return c.queue }

func (c *specChange) prepare(b *batch) {
	d := b.deltaOf(c.queue)
	d.receiver = c.receiver
	if len(c.notes) > 0 || c.text != nil {
		b.logChange(logUpdate{subject: queueSubject(c.spec.Name), changes: c.notes, revision: c.revision, document: c.text, created: c.created})
	}
	if c.putsSpec {
		if c.at != 0 {
			rate := c.queue.adapted
			if d.adapted != nil {
				rate = d.adapted
			}
			c.paces = c.decidedPaces.onto(rate, &c.spec, c.at)
		}
		d.ceiling = c.paces.ceilings()
		d.adapted = nil // what this one writes is it
	}
}

func (c *specChange) write(t *tables) error {
	if c.created {
		if err := t.dropLeftPaces(c.spec.Name); err != nil {
			return err
		}
		if err := t.dropRetention(c.spec.Name); err != nil {
			return err
		}
	}
	if c.putsSpec {
		if err := t.putAdapted(c.queue.number, c.paces.adapted); err != nil {
			return err
		}
	}
	return t.putSpec(c.queue, specRecord{spec: c.spec, text: c.text, revision: c.revision, pause: c.pause})
}

func (c *specChange) apply(e *Engine, now leaky.Instant) {
	q := c.queue
	q.busy = nil
	if c.countsRules {
		e.rulesVersion++
		if !c.created {
			e.countRuleUses(&q.spec, -1)
		}
	}
	if c.putsSpec {
		if q.laneTurns != nil && !sameLanes(&q.spec, &c.spec) {
			q.laneTurns.rulesChanged()
		}
		if q.spec.Pull != c.spec.Pull {
			e.takeOffAgenda(q)
		}
		q.setSpec(c.spec)
		q.revision, q.paces = c.revision, c.paces
		q.pledged = q.ceiling
		e.noteCalendars(&q.paces)
	}
	over := q.pause.until
	q.pause = c.pause
	if c.receiver != nil {
		q.receiver = *c.receiver
	}
	if c.endsPause { // for a Reserve, which goes on as it does with jobs that were due then
		if q.isParent() {
			e.rearmGroup(q.group, over)
		}
		c.call.finish(nil)
		return
	}
	if c.created {
		q.live = true
		delete(e.leftPaces, q.spec.Name)
		if dead := e.deadJobs[q.spec.Name]; dead != nil {
			dead.retention = nil
			if dead.dead.len() == 0 {
				delete(e.deadJobs, dead.name)
			}
		}
		at, _ := slices.BinarySearch(e.queueNames, q.spec.Name)
		e.queueNames = slices.Insert(e.queueNames, at, q.spec.Name)
		e.joinGroup(q, now)
	}
	e.rearm(q, now)
	if q.isParent() {
		e.rearmGroup(q.group, now)
	}
	e.wakeForQueue(q, now)
	if c.putsSpec {
		e.announceRoom(q, now)
	}
	c.call.finish(nil)
}

func (c *specChange) rollBack(e *Engine, err error) {
	c.queue.busy = nil
	c.queue.pullsNow = c.queue.spec.Pull
	if c.countsRules {
		e.countRuleUses(&c.spec, -1)
	}
	if c.created {
		delete(e.queues, c.spec.Name)
		e.countChild(c.spec.Name, -1)
	} else {
		e.arm(c.queue, e.now())
	}
	c.call.finish(err)
}

func (c *specChange) freesSpace() bool { return !c.created }

// deleteChange removes a queue. Its jobs' records become garbage, which is swept
// in pieces.
type deleteChange struct {
	call  *call
	queue *queueState
	left  paces
	// matters says that it can still delay anything.
	matters     bool
	mayHaveDead bool // there may be dead jobs, which outlive the queue
	notes       []queue.Change
}

func (c *deleteChange) bind(call *call) *queueState { c.call = call; return c.queue }

func (c *deleteChange) prepare(b *batch) {
	d := b.deltaOf(c.queue)
	d.gone = true
	c.mayHaveDead = c.mayHaveDead || c.queue.saved.Died+d.counters.Died > 0
	b.logChange(logUpdate{subject: queueSubject(c.queue.spec.Name), changes: c.notes, gone: true})
}

func (c *deleteChange) write(t *tables) error {
	if err := t.dropQueue(c.queue.number); err != nil {
		return err
	}
	if c.mayHaveDead {
		if err := t.putRetention(c.queue.spec.Name, c.queue.spec.Retention); err != nil {
			return err
		}
	}
	if !c.matters {
		return nil
	}
	return t.putLeftPaces(c.queue.spec.Name, &c.left)
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
