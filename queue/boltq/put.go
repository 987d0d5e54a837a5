package boltq

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/changekind"
)

// Put implements queue.Specs.
func (e *Engine) Put(ctx context.Context, spec queue.Spec, expect int64) (queue.PutResult, error) {
	return e.putSpec(ctx, spec, expect, false)
}

// putSpec is Put; again says that the queue had the spec before.
func (e *Engine) putSpec(ctx context.Context, spec queue.Spec, expect int64, again bool) (queue.PutResult, error) {
	if err := ctx.Err(); err != nil {
		return queue.PutResult{}, err
	}
	actor, err := queue.ActorOf(ctx)
	if err != nil {
		return queue.PutResult{}, err
	}
	spec, text, err := normalized(spec)
	if err != nil {
		return queue.PutResult{}, err
	}
	// Set by the decision, in this goroutine. The change may still be under way when the caller has given up, so it
	// must not write to it.
	var put queue.PutResult
	err = e.decide(ctx, spec.Name, func(q *queueState, now leaky.Instant) (change, error) {
		c, result, err := e.decidePut(q, spec, expect, now)
		put = result
		if c == nil {
			return nil, err
		}
		c.note(q, now, actor, text, again)
		return c, nil
	})
	if err != nil && !errors.Is(err, queue.ErrRevision) {
		return queue.PutResult{}, err
	}
	return put, err
}

// normalized returns a valid spec as it is stored, and its text.
func normalized(spec queue.Spec) (queue.Spec, []byte, error) {
	spec.Normalize()
	if err := spec.Validate(); err != nil {
		return spec, nil, err
	}
	return asStored(spec, queue.EncodeSpec, queue.ParseSpec)
}

// decidePut returns the change, nil if nothing changes, and the answer once that is on disk.
func (m *machine) decidePut(
	q *queueState, spec queue.Spec, expect int64, now leaky.Instant,
) (*specChange, queue.PutResult, error) {
	var present int64
	if q != nil {
		present = q.revision
	}
	if err := checkRevision(spec.Name, expect, present); err != nil {
		return nil, queue.PutResult{Revision: present}, err
	}
	if q != nil && q.spec.Equal(spec) {
		return nil, queue.PutResult{Revision: present}, nil
	}
	if err := m.checkPullRelations(&spec); err != nil {
		return nil, queue.PutResult{}, err
	}
	if err := m.checkRuleNames(&spec); err != nil {
		return nil, queue.PutResult{}, err
	}
	parent := queue.Parent(spec.Name)
	if q == nil && parent != "" && m.children[parent] >= queue.MaxChildren {
		return nil, queue.PutResult{}, &queue.FieldError{
			Field: "name", Value: queue.Shorten(spec.Name, 80),
			Reason: fmt.Sprintf("%s has %d children, the most that a queue can have", parent, queue.MaxChildren),
		}
	}
	m.store.revision++
	c := &specChange{spec: spec, revision: m.store.revision, putsSpec: true, at: now}
	if q == nil {
		m.store.queue++
		q = newQueueState(m.store.queue, spec)
		left, made := m.leftPaces[spec.Name]
		if !made {
			left.pacer = q.pacer
		}
		left.pacer, left.bucket = q.pacer, left.pacer.Change(left.bucket, q.pacer, now)
		var err error
		if c.paces, err = left.withSpec(&spec, now); err != nil {
			return nil, queue.PutResult{}, err
		}
		c.paces.changed = now
		q.paces, c.created = c.paces, true
		m.countChild(spec.Name, 1)
		m.queues[spec.Name] = q // busy, and so invisible, until it is on disk
	} else {
		var err error
		if c.paces, err = q.withSpec(&spec, now); err != nil {
			return nil, queue.PutResult{}, err
		}
		if c.pause = q.pause; c.pause.ended(now) {
			c.pause = pause{}
		}
		if spec.Circuit.Off && q.receiver.opened != 0 {
			r := q.receiver
			r.closeCircuit(now)
			c.receiver = &r
		}
	}
	c.decidedPaces = c.paces
	c.queue, c.countsRules = q, true
	m.countRuleUses(&c.spec, 1)
	q.pullsNow = spec.Pull || q.spec.Pull
	return c, queue.PutResult{Revision: c.revision, Created: c.created, Changed: true}, nil
}

// asStored writes and reads a spec or rule, so that memory has it exactly as the file does, and shares it with
// nobody.
func asStored[T any](
	v T, write func(T) ([]byte, error), read func([]byte) (T, error),
) (back T, text []byte, err error) {
	if text, err = write(v); err == nil {
		back, err = read(text)
	}
	return back, text, err
}

// checkRevision returns ErrRevision unless a queue or rule is at the expected revision.
func checkRevision(name string, expect, present int64) error {
	if expect != queue.AnyRevision && expect != present {
		return fmt.Errorf("%w: %s is at revision %d, not %d", queue.ErrRevision, name, present, expect)
	}
	return nil
}

// queueChange is a change that concerns a whole queue.
type queueChange interface {
	change
	bind(c *call) *queueState
}

// decide runs a decision about a queue (nil if there is none) when nobody else is changing it, and waits for the
// change that it returns.
func (e *Engine) decide(
	ctx context.Context, name string, decision func(*queueState, leaky.Instant) (change, error),
) error {
	return decideWhenFree(ctx, func(c *call) (*call, error) { return e.tryDecide(name, c, decision) })
}

// decideWhenFree calls once until it returns no call of somebody who is changing the same thing, and waits for the
// change that it enqueued.
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

func (e *Engine) tryDecide(
	name string, c *call, decision func(*queueState, leaky.Instant) (change, error),
) (*call, error) {
	e.lock()
	defer e.unlock()
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

// specChange creates a queue, or changes its spec or pause. The queue is busy meanwhile, so its bucket stands
// still.
type specChange struct {
	call         *call
	queue        *queueState
	spec         queue.Spec
	revision     int64
	created      bool
	decidedPaces paces         // of a Put, as decided
	at           leaky.Instant // of the Put; 0 for other changes, which leave the paces alone
	paces        paces         // decidedPaces, onto the rate that earlier settlements left
	pause        pause
	receiver     *receiverState // nil if it stays as it is
	putsSpec     bool           // a Put or an import, not a pause
	countsRules  bool           // ruleUses has the rules of spec
	endsPause    bool           // a pause whose time has come
	notes        []logged
	text         []byte // of the spec, to be logged; nil if it is the same at the same revision
}

func (c *specChange) bind(call *call) *queueState { c.call = call; return c.queue }

func (c *specChange) rollBack(m *machine, now leaky.Instant, err error) {
	c.queue.busy = nil
	c.queue.pullsNow = c.queue.spec.Pull
	if c.countsRules {
		m.countRuleUses(&c.spec, -1)
	}
	if c.created {
		delete(m.queues, c.spec.Name)
		m.countChild(c.spec.Name, -1)
	} else {
		m.arm(c.queue, now)
	}
	c.call.finish(err)
}

func (c *specChange) freesSpace() bool { return !c.created }

// note adds what a Put logs; q is nil if there is no queue yet.
func (c *specChange) note(q *queueState, now leaky.Instant, actor queue.Actor, text []byte, again bool) {
	n := loggedBy(changekind.Created, actor, c.revision, now)
	n.Was = 0
	if q != nil {
		n.What, n.Was = changekind.Changed, q.revision
		c.notes = q.pauseLapsed(now)
	}
	if again {
		n.What = changekind.RolledBack
	}
	if q != nil {
		n.before, _ = queue.EncodeSpec(q.spec) // it was encoded before
	}
	n.after = text
	c.notes, c.text = append(c.notes, n), text
}

func (c *specChange) prepare(b *batch) {
	d := b.deltaOf(c.queue)
	d.receiver = c.receiver
	if len(c.notes) > 0 || c.text != nil {
		b.logChange(logUpdate{
			subject: queueSubject(c.spec.Name), changes: c.notes, revision: c.revision, version: c.text,
			created: c.created,
		})
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
		d.adapted = nil
		b.putAdapted(c.queue.number, c.paces.adapted)
	}
	if c.created {
		b.dropLeftPaces(c.spec.Name)
		b.dropRetention(c.spec.Name)
	}
	b.putSpec(c.queue, specRecord{spec: c.spec, text: c.text, revision: c.revision, pause: c.pause})
}

func (c *specChange) apply(m *machine, now leaky.Instant) {
	q := c.queue
	q.busy = nil
	if c.countsRules {
		m.rulesVersion++
		if !c.created {
			m.countRuleUses(&q.spec, -1)
		}
	}
	if c.putsSpec {
		if q.laneTurns != nil && !sameLanes(&q.spec, &c.spec) {
			q.laneTurns.rulesChanged()
		}
		if q.spec.Pull != c.spec.Pull {
			m.takeOffAgenda(q)
		}
		q.setSpec(c.spec)
		q.revision, q.paces = c.revision, c.paces
		q.pledged = q.ceiling
		m.noteCalendars(&q.paces)
	}
	over := q.pause.until
	q.pause = c.pause
	if c.receiver != nil {
		q.receiver = *c.receiver
	}
	if c.endsPause { // The Reserve that ends it visits the queue itself, as one whose jobs were due then.
		if q.isParent() {
			m.rearmGroup(q.group, over)
		}
		c.call.finish(nil)
		return
	}
	if c.created {
		q.live = true
		delete(m.leftPaces, q.spec.Name)
		if dead := m.deadJobs[q.spec.Name]; dead != nil {
			dead.retention = nil
			if dead.dead.len() == 0 {
				delete(m.deadJobs, dead.name)
			}
		}
		at, _ := slices.BinarySearch(m.queueNames, q.spec.Name)
		m.queueNames = slices.Insert(m.queueNames, at, q.spec.Name)
		m.joinGroup(q, now)
	}
	m.rearm(q, now)
	if q.isParent() {
		m.rearmGroup(q.group, now)
	}
	m.wakeForQueue(q, now)
	if c.putsSpec {
		m.announceRoom(q, now)
	}
	c.call.finish(nil)
}
