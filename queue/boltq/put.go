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
	spec, text, err := checked(spec)
	if err != nil {
		return queue.PutResult{}, err
	}
	// Written by the decision, in this goroutine: the change may be under way for
	// longer than the caller waits, and so has no part in it.
	var put queue.PutResult
	err = e.decide(ctx, spec.Name, func(l *line, now leaky.Instant) (change, error) {
		c, result, err := e.put(l, spec, expect, now)
		put = result
		if c == nil {
			return nil, err
		}
		c.note(l, now, by, again)
		c.text = text
		return c, nil
	})
	if err != nil && !errors.Is(err, queue.ErrRevision) {
		return queue.PutResult{}, err
	}
	return put, err
}

// checked returns a spec that can be put, as it is kept, and its text.
func checked(spec queue.Spec) (queue.Spec, []byte, error) {
	spec.Normalize()
	if err := spec.Validate(); err != nil {
		return spec, nil, err
	}
	return canonical(spec, queue.EncodeSpec, queue.ParseSpec)
}

// note says what is to be recorded of a Put; l is nil if there is no queue yet.
func (c *changing) note(l *line, now leaky.Instant, by string, again bool) {
	n := changed(queue.Change{At: now.Time(), By: by, What: queue.Created, Revision: c.revision})
	if l != nil {
		n.What, n.Was = queue.Changed, l.revision
		c.notes = l.lapse(now)
	}
	if again {
		n.What = queue.RolledBack
	}
	c.notes = append(c.notes, n)
}

// put decides what changes, nil if nothing does, and what is answered when that
// is on disk.
func (e *Engine) put(l *line, spec queue.Spec, expect int64, now leaky.Instant) (*changing, queue.PutResult, error) {
	var present int64
	if l != nil {
		present = l.revision
	}
	if err := expected(spec.Name, expect, present); err != nil {
		return nil, queue.PutResult{Revision: present}, err
	}
	if l != nil && l.spec.Equal(spec) {
		return nil, queue.PutResult{Revision: present}, nil
	}
	if err := e.unrelated(&spec); err != nil {
		return nil, queue.PutResult{}, err
	}
	if err := e.nameable(&spec); err != nil {
		return nil, queue.PutResult{}, err
	}
	parent := queue.Parent(spec.Name)
	if l == nil && parent != "" && e.children[parent] >= queue.MaxChildren {
		return nil, queue.PutResult{}, &queue.FieldError{
			Field: "name", Value: queue.Shorten(spec.Name, 80), Reason: fmt.Sprintf("%s has %d children, the most that a queue can have", parent, queue.MaxChildren),
		}
	}
	e.store.revision++
	c := &changing{spec: spec, revision: e.store.revision, respec: true, at: now}
	if l == nil {
		e.store.line++
		l = newLine(e.store.line, spec)
		left, made := e.left[spec.Name]
		if !made {
			left.pacer = l.pacer
		}
		left.pacer, left.bucket = l.pacer, left.pacer.Change(left.bucket, l.pacer, now)
		var err error
		if c.paces, err = left.under(&spec, now); err != nil {
			return nil, queue.PutResult{}, err
		}
		c.paces.changed = now
		l.paces, c.created = c.paces, true
		e.bear(spec.Name, 1)
		e.lines[spec.Name] = l // it is busy, and so invisible, until it is on disk
	} else {
		var err error
		if c.paces, err = l.under(&spec, now); err != nil {
			return nil, queue.PutResult{}, err
		}
		if c.pause = l.pause; c.pause.over(now) {
			c.pause = pause{}
		}
		if spec.Circuit.Off && l.heard.opened != 0 {
			h := l.heard
			h.shut(now)
			c.heard = &h
		}
	}
	c.decided = c.paces
	c.line, c.names = l, true
	e.name(&c.spec, 1)
	l.pulls = spec.Pull || l.spec.Pull
	return c, queue.PutResult{Revision: c.revision, Created: c.created, Changed: true}, nil
}

// canonical returns a spec or a rule as it is written to the file, and as it will be read from there: so it is the same in memory,
// and nobody else's.
func canonical[T any](v T, write func(T) ([]byte, error), read func([]byte) (T, error)) (back T, text []byte, err error) {
	if text, err = write(v); err == nil {
		back, err = read(text)
	}
	return back, text, err
}

// expected returns ErrRevision if a queue or rule is not at the revision that a change expects.
func expected(name string, expect, present int64) error {
	if expect != queue.AnyRevision && expect != present {
		return fmt.Errorf("%w: %s is at revision %d, not %d", queue.ErrRevision, name, present, expect)
	}
	return nil
}
