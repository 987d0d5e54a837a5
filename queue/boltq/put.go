package boltq

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// Put implements queue.Specs.
func (e *Engine) Put(ctx context.Context, spec queue.Spec, expect int64) (queue.PutResult, error) {
	return e.putSpec(ctx, spec, expect, false)
}

// putSpec is Put, of a spec that the queue had before if again.
func (e *Engine) putSpec(ctx context.Context, spec queue.Spec, expect int64, again bool) (queue.PutResult, error) {
	if err := ctx.Err(); err != nil {
		return queue.PutResult{}, err
	}
	by, err := queue.By(ctx)
	if err != nil {
		return queue.PutResult{}, err
	}
	spec, text, err := normalized(spec)
	if err != nil {
		return queue.PutResult{}, err
	}
	// Written by the decision, in this goroutine: the change may be under way for
	// longer than the caller waits, and so has no part in it.
	var put queue.PutResult
	err = e.decide(ctx, spec.Name, func(q *queueState, now leaky.Instant) (change, error) {
		c, result, err := e.decidePut(q, spec, expect, now)
		put = result
		if c == nil {
			return nil, err
		}
		c.note(q, now, by, again)
		c.text = text
		return c, nil
	})
	if err != nil && !errors.Is(err, queue.ErrRevision) {
		return queue.PutResult{}, err
	}
	return put, err
}

// normalized returns a spec that can be put, as it is kept, and its text.
func normalized(spec queue.Spec) (queue.Spec, []byte, error) {
	spec.Normalize()
	if err := spec.Validate(); err != nil {
		return spec, nil, err
	}
	return asStored(spec, queue.EncodeSpec, queue.ParseSpec)
}

// note says what is to be recorded of a Put; l is nil if there is no queue yet.
func (c *specChange) note(q *queueState, now leaky.Instant, by string, again bool) {
	n := doneNow(queue.Change{At: now.Time(), By: by, What: queue.Created, Revision: c.revision})
	if q != nil {
		n.What, n.Was = queue.Changed, q.revision
		c.notes = q.pauseLapsed(now)
	}
	if again {
		n.What = queue.RolledBack
	}
	c.notes = append(c.notes, n)
}

// decidePut decides what changes, nil if nothing does, and what is answered when that
// is on disk.
func (e *Engine) decidePut(q *queueState, spec queue.Spec, expect int64, now leaky.Instant) (*specChange, queue.PutResult, error) {
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
	if err := e.checkPullRelations(&spec); err != nil {
		return nil, queue.PutResult{}, err
	}
	if err := e.checkRuleNames(&spec); err != nil {
		return nil, queue.PutResult{}, err
	}
	parent := queue.Parent(spec.Name)
	if q == nil && parent != "" && e.children[parent] >= queue.MaxChildren {
		return nil, queue.PutResult{}, &queue.FieldError{
			Field: "name", Value: queue.Shorten(spec.Name, 80), Reason: fmt.Sprintf("%s has %d children, the most that a queue can have", parent, queue.MaxChildren),
		}
	}
	e.store.revision++
	c := &specChange{spec: spec, revision: e.store.revision, putsSpec: true, at: now}
	if q == nil {
		e.store.queue++
		q = newQueueState(e.store.queue, spec)
		left, made := e.leftPaces[spec.Name]
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
		e.countChild(spec.Name, 1)
		e.queues[spec.Name] = q // it is busy, and so invisible, until it is on disk
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
	e.countRuleUses(&c.spec, 1)
	q.pullsNow = spec.Pull || q.spec.Pull
	return c, queue.PutResult{Revision: c.revision, Created: c.created, Changed: true}, nil
}

// asStored returns a spec or a rule as it is written to the file, and as it will be read from there: so it is the same in memory,
// and nobody else's.
func asStored[T any](v T, write func(T) ([]byte, error), read func([]byte) (T, error)) (back T, text []byte, err error) {
	if text, err = write(v); err == nil {
		back, err = read(text)
	}
	return back, text, err
}

// checkRevision returns ErrRevision if a queue or rule is not at the revision that a change expects.
func checkRevision(name string, expect, present int64) error {
	if expect != queue.AnyRevision && expect != present {
		return fmt.Errorf("%w: %s is at revision %d, not %d", queue.ErrRevision, name, present, expect)
	}
	return nil
}
