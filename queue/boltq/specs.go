package boltq

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
	spec.Normalize()
	if err := spec.Validate(); err != nil {
		return queue.PutResult{}, err
	}
	// In the canonical form, the same in memory as it will be read from the file.
	text, err := queue.EncodeSpec(spec)
	if err != nil {
		return queue.PutResult{}, err
	}
	if spec, err = queue.ParseSpec(text); err != nil {
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
		return c, nil
	})
	if err != nil && !errors.Is(err, queue.ErrRevision) {
		return queue.PutResult{}, err
	}
	return put, err
}

// note says what is to be recorded of a Put; l is nil if there is no queue yet.
func (c *changing) note(l *line, now leaky.Instant, by string, again bool) {
	n := queue.Change{At: now.Time(), By: by, What: queue.Created, Revision: c.revision, After: &c.spec}
	if l != nil {
		before := l.spec
		n.What, n.Before, n.Was = queue.Changed, &before, l.revision
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

// Delete implements queue.Specs.
func (e *Engine) Delete(ctx context.Context, name string, expect int64, force bool) error {
	by, err := queue.By(ctx)
	if err != nil {
		return err
	}
	return e.decide(ctx, name, func(l *line, now leaky.Instant) (change, error) {
		switch {
		case l == nil:
			return nil, unknownQueue(name)
		case expect != queue.AnyRevision && expect != l.revision:
			return nil, fmt.Errorf("%w: %s is at revision %d, not %d", queue.ErrRevision, name, l.revision, expect)
		case e.children[name] > 0:
			return nil, fmt.Errorf("%w: %s has %d", queue.ErrHasChildren, name, e.children[name])
		case !force && l.size() > 0:
			return nil, fmt.Errorf("%w: %s has %d", queue.ErrNotEmpty, name, l.size())
		case !force && l.backlog():
			return nil, fmt.Errorf("%w: %s has %d deferred", queue.ErrNotEmpty, name, l.onOverflow()+l.aside.leaving)
		}
		c := &deleting{line: l, left: l.settled(now), mourned: e.deadOf(name) > 0 || l.filling.mark != ""}
		before := l.spec
		c.notes = append(l.lapse(now), queue.Change{At: now.Time(), By: by, What: queue.Deleted, Revision: l.revision, Was: l.revision, Before: &before})
		c.matters = c.left.matters(now)
		return c, nil
	})
}

// lineChange is a change that concerns a whole queue.
type lineChange interface {
	change
	bind(c *call) *line
}

// decide runs a decision about a queue, nil if there is none, once nobody else
// is changing it, and waits for the change that comes of it.
func (e *Engine) decide(ctx context.Context, name string, decision func(*line, leaky.Instant) (change, error)) error {
	return untilDecided(ctx, func(c *call) (*call, error) { return e.decideOnce(name, c, decision) })
}

// untilDecided decides once nobody else is changing what it is about, who that is being what once answers, and waits for the
// change that comes of it.
func untilDecided(ctx context.Context, once func(*call) (busy *call, err error)) error {
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

func (e *Engine) decideOnce(name string, c *call, decision func(*line, leaky.Instant) (change, error)) (*call, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.usable(); err != nil {
		return nil, err
	}
	l := e.lines[name]
	if l != nil && l.busy != nil {
		return l.busy, nil
	}
	ch, err := decision(l, e.now())
	if err != nil || ch == nil {
		return nil, err
	}
	ch.(lineChange).bind(c).busy = c
	e.enqueue(c, ch)
	return nil, nil
}

// changing creates a queue or changes its spec or its pause. Its bucket stands
// still meanwhile, because the queue is busy.
type changing struct {
	call     *call
	line     *line
	spec     queue.Spec
	revision int64
	created  bool
	decided  paces         // of a Put, upon the rate as it was
	at       leaky.Instant // of the Put; 0 is none, and the paces are as they are
	paces    paces         // upon what was settled before it
	pause    pause
	heard    *heard // nil if it stays as it is
	respec   bool   // by a Put, and not a pause
	names    bool   // the rules that it names are counted
	ends     bool   // a pause whose time has come
	notes    []queue.Change
}

func (c *changing) bind(call *call) *line { c.call = call; return c.line }

func (c *changing) tally(b *batch) {
	d := b.of(c.line)
	d.heard = c.heard
	if c.respec {
		if c.at != 0 {
			rate := c.line.adapted
			if d.adapted != nil {
				rate = d.adapted
			}
			c.paces = c.decided.upon(rate, &c.spec, c.at)
		}
		d.ceiling = c.paces.reached()
		d.adapted = nil // what this one writes is it
	}
}

func (c *changing) write(t *tables) error {
	if c.created {
		if err := t.dropLeft(c.spec.Name); err != nil {
			return err
		}
		if err := t.dropRetention(c.spec.Name); err != nil {
			return err
		}
	}
	if err := t.note(c.spec.Name, c.notes); err != nil {
		return err
	}
	if c.respec {
		if err := t.putAdapted(c.line.number, c.paces.adapted); err != nil {
			return err
		}
	}
	return t.putSpec(c.line, specRecord{spec: c.spec, revision: c.revision, pause: c.pause})
}

func (c *changing) done(e *Engine, now leaky.Instant) {
	l := c.line
	l.busy = nil
	if c.names {
		e.ruled++
		if !c.created {
			e.name(&l.spec, -1)
		}
	}
	if c.respec {
		if l.turns != nil && !sameLanes(&l.spec, &c.spec) {
			l.turns.change()
		}
		if l.spec.Pull != c.spec.Pull {
			e.unfile(l)
		}
		l.setSpec(c.spec)
		l.revision, l.paces = c.revision, c.paces
		l.pledged = l.ceiling
		e.attend(&l.paces)
	}
	over := l.pause.until
	l.pause = c.pause
	if c.heard != nil {
		l.heard = *c.heard
	}
	if c.ends { // for a Reserve, which goes on as it does with jobs that were due then
		if l.heads() {
			e.rearmGroup(l.kin, over)
		}
		c.call.settle(nil)
		return
	}
	if c.created {
		l.live = true
		delete(e.left, l.spec.Name)
		if ls := e.letters[l.spec.Name]; ls != nil {
			ls.kept = nil
			if ls.dead.len() == 0 {
				delete(e.letters, ls.name)
			}
		}
		at, _ := slices.BinarySearch(e.names, l.spec.Name)
		e.names = slices.Insert(e.names, at, l.spec.Name)
		e.adopt(l, now)
	}
	e.rearm(l, now)
	if l.heads() {
		e.rearmGroup(l.kin, now)
	}
	e.wakeForLine(l, now)
	if c.respec {
		e.tellRoom(l, now)
	}
	c.call.settle(nil)
}

func (c *changing) undone(e *Engine, err error) {
	c.line.busy = nil
	c.line.pulls = c.line.spec.Pull
	if c.names {
		e.name(&c.spec, -1)
	}
	if c.created {
		delete(e.lines, c.spec.Name)
		e.bear(c.spec.Name, -1)
	} else {
		e.arm(c.line, e.now())
	}
	c.call.settle(err)
}

func (c *changing) frees() bool { return !c.created }

// deleting removes a queue. Its jobs' records become garbage, which is swept
// in pieces.
type deleting struct {
	call *call
	line *line
	left paces
	// matters says that it can still delay anything.
	matters bool
	mourned bool // there may be dead jobs, which outlive the queue
	notes   []queue.Change
}

func (c *deleting) bind(call *call) *line { c.call = call; return c.line }

func (c *deleting) tally(b *batch) {
	d := b.of(c.line)
	d.gone = true
	c.mourned = c.mourned || c.line.kept.died+d.counters.died > 0
}

func (c *deleting) write(t *tables) error {
	if err := t.note(c.line.spec.Name, c.notes); err != nil {
		return err
	}
	if err := t.dropLine(c.line.number); err != nil {
		return err
	}
	if c.mourned {
		if err := t.putRetention(c.line.spec.Name, c.line.spec.Retention); err != nil {
			return err
		}
	}
	if !c.matters {
		return nil
	}
	return t.putLeft(c.line.spec.Name, &c.left)
}

func (c *deleting) done(e *Engine, now leaky.Instant) {
	l := c.line
	l.busy, l.live, l.gone = nil, false, true
	e.name(&l.spec, -1)
	e.ruled++
	e.part(l, now)
	e.arm(l, now) // takes it off the agenda
	e.bear(l.spec.Name, -1)
	for s, n := range l.count {
		e.count[s] -= n
	}
	e.enlist(l)
	name := l.spec.Name
	if c.mourned {
		retention := l.spec.Retention
		e.lettersOf(name).kept = &retention
	}
	if c.matters {
		e.left[name] = c.left
	}
	delete(e.lines, name)
	if at, found := slices.BinarySearch(e.names, name); found {
		e.names = slices.Delete(e.names, at, at+1)
	}
	e.discard(l)
	c.call.settle(nil)
}

func (c *deleting) undone(e *Engine, err error) {
	c.line.busy = nil
	e.arm(c.line, e.now())
	c.call.settle(err)
}

func (c *deleting) frees() bool { return true }
