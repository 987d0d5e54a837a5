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
		c.notes = append(l.lapse(now), changed(queue.Change{At: now.Time(), By: by, What: queue.Deleted, Revision: l.revision, Was: l.revision}))
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
	text     []byte // the spec as it is kept, if it is another, or has another revision
}

func (c *changing) bind(call *call) *line { c.call = call; return c.line }

func (c *changing) tally(b *batch) {
	d := b.of(c.line)
	d.heard = c.heard
	if len(c.notes) > 0 || c.text != nil {
		b.note(noting{subject: queueNamed(c.spec.Name), changes: c.notes, revision: c.revision, document: c.text, made: c.created})
	}
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
	if c.respec {
		if err := t.putAdapted(c.line.number, c.paces.adapted); err != nil {
			return err
		}
	}
	return t.putSpec(c.line, specRecord{spec: c.spec, text: c.text, revision: c.revision, pause: c.pause})
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
	b.note(noting{subject: queueNamed(c.line.spec.Name), changes: c.notes, gone: true})
}

func (c *deleting) write(t *tables) error {
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
