package boltq

import (
	"context"
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// pause is why nothing leaves a queue. One whose time has come stands until a Reserve, or
// somebody who changes the queue, has seen to it.
type pause struct {
	by, reason   string
	since, until leaky.Instant // since is 0 if there is none, until if it has no end
}

// holds reports whether the queue is paused.
func (p *pause) holds(now leaky.Instant) bool { return p.since != 0 && !p.over(now) }

// over reports whether its time has come.
func (p *pause) over(now leaky.Instant) bool { return p.until != 0 && p.until <= now }

// told is the pause as callers see it.
func (p *pause) told(now leaky.Instant) queue.Pause {
	if !p.holds(now) {
		return queue.Pause{}
	}
	t := queue.Pause{By: p.by, Reason: p.reason, Since: p.since.Time()}
	if p.until != 0 {
		t.Until = p.until.Time()
	}
	return t
}

// pauseOf is a pause as callers see it.
func pauseOf(p queue.Pause) pause {
	return pause{by: p.By, reason: p.Reason, since: instant(p.Since), until: instant(p.Until)}
}

// pauses are those that hold a queue: its own, and its parent's.
func (l *line) pauses() []*pause {
	if p := l.parent(); p != nil {
		return []*pause{&l.pause, &p.pause}
	}
	return []*pause{&l.pause}
}

// stopped reports whether nothing leaves l because of a pause.
func (l *line) stopped(now leaky.Instant) bool {
	return slices.ContainsFunc(l.pauses(), func(p *pause) bool { return p.holds(now) })
}

// goes is from when on something leaves l as far as pauses and its stop go, if that is known.
func (l *line) goes(now leaky.Instant) (at leaky.Instant, known bool) {
	at, known = max(now, l.heard.stop), true
	for _, p := range l.pauses() {
		if p.holds(now) {
			at, known = max(at, p.until), known && p.until != 0
		}
	}
	return at, known
}

// Pause implements queue.Specs.
func (e *Engine) Pause(ctx context.Context, name string, p queue.Pause) error {
	p.Normalize()
	if err := p.Validate(); err != nil {
		return err
	}
	by, err := queue.By(ctx)
	if err != nil {
		return err
	}
	return e.decide(ctx, name, func(l *line, now leaky.Instant) (change, error) {
		if l == nil {
			return nil, unknownQueue(name)
		}
		if err := p.ValidateAhead(now.Time()); err != nil {
			return nil, err
		}
		to := pause{by: by, reason: p.Reason, since: now, until: instant(p.Until)}
		same := to
		if same.since = l.pause.since; l.pause.holds(now) && same == l.pause {
			return nil, nil
		}
		c := l.repause(to, now)
		c.notes = append(c.notes, changed(queue.Change{At: now.Time(), By: by, What: queue.Paused, Revision: l.revision, Was: l.revision, Reason: to.reason, Until: p.Until}))
		return c, nil
	})
}

// Resume implements queue.Specs.
func (e *Engine) Resume(ctx context.Context, name string) error {
	by, err := queue.By(ctx)
	if err != nil {
		return err
	}
	return e.decide(ctx, name, func(l *line, now leaky.Instant) (change, error) {
		if l == nil {
			return nil, unknownQueue(name)
		}
		h := l.heard
		h.goOn(now)
		n := changed(queue.Change{At: now.Time(), By: by, What: queue.Resumed, Revision: l.revision, Was: l.revision})
		if h != l.heard {
			n.Detail = queue.StopLifted
		}
		if !l.pause.holds(now) {
			if h == l.heard {
				return nil, nil
			}
			return &changing{line: l, spec: l.spec, revision: l.revision, pause: l.pause, heard: &h, notes: []queue.Change{n}}, nil
		}
		c := l.repause(pause{}, now)
		c.heard = &h
		c.notes = append(c.notes, n)
		return c, nil
	})
}

// repause is the change to another pause.
func (l *line) repause(to pause, now leaky.Instant) *changing {
	return &changing{line: l, spec: l.spec, revision: l.revision, pause: to, notes: l.lapse(now)}
}

// endPauses ends those pauses whose time has come, in a bounded number of queues, or in the one
// that is pulled and its parent.
func (e *Engine) endPauses(c *call, pulled *line, now leaky.Instant) {
	if pulled != nil {
		e.endPause(pulled, c, now)
		if p := pulled.parent(); p != nil {
			e.endPause(p, c, now)
		}
		return
	}
	var seen []*line
	for len(seen) < ripenQueues && e.ripening.len() > 0 && e.ripening.top().ripens <= now {
		l := e.ripening.pop()
		seen = append(seen, l)
		e.endPause(l, c, now)
	}
	for _, l := range seen {
		e.ripening.push(l)
	}
}

func (e *Engine) endPause(l *line, c *call, now leaky.Instant) {
	if l.busy != nil || !l.pause.over(now) || e.full() {
		return
	}
	ch := l.repause(pause{}, now)
	ch.ends = true
	ch.bind(c).busy = c
	e.enqueue(c, ch)
}
