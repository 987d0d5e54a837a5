package boltq

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// A pull queue stands on an agenda of its own, which no drainer looks at: it is visited when
// somebody asks for it by name. Those who do sleep between two requests; told is when the last
// of them was told to come back.

// agendaOf returns the agenda on which a queue stands.
func (e *Engine) agendaOf(l *line) *heap[*outlet] {
	if l.spec.Pull {
		return &e.pulled
	}
	return &e.agenda
}

func (e *Engine) ripeningOf(l *line) *heap[*line] {
	if l.spec.Pull {
		return &e.pulledRipening
	}
	return &e.ripening
}

// unfile takes a queue off its agenda, before it stands on the other.
func (e *Engine) unfile(l *line) {
	place(e.agendaOf(l), &l.outlet, l.agendaAt, false)
	place(e.ripeningOf(l), l, l.ripeningAt, false)
}

// pulledBy returns the queue that a request names, nil if it names none. A request that
// repeats one is answered whatever has become of the queue's spec.
func (e *Engine) pulledBy(r *queue.ReserveRequest, fresh bool) (*line, error) {
	if r.Queue == "" {
		return nil, nil
	}
	l := e.lines[r.Queue]
	switch {
	case l == nil || !l.live:
		return nil, fmt.Errorf("%w: %s", queue.ErrUnknownQueue, r.Queue)
	case fresh && !l.spec.Pull:
		return nil, queue.NotPulled(r.Queue)
	}
	return l, nil
}

// grantPulled visits a pull queue. While somebody changes it, it grants nothing.
func (e *Engine) grantPulled(g *grant, l *line, now leaky.Instant) {
	if l.busy != nil || g.full {
		return
	}
	if l.ripeningAt >= 0 && l.ripens <= now {
		e.ripenLine(l, now)
	}
	if l.agendaAt >= 0 && l.departs <= now.Add(queue.Horizon) {
		e.visit(l, g, now)
		e.rearm(l, now)
	} else {
		e.armRipening(l)
	}
}

// untilPulled is how long until those who pull from a queue should ask, which they are then
// taken to do.
func (e *Engine) untilPulled(l *line, full bool, now leaky.Instant) time.Duration {
	next := longestSleep
	if l.agendaAt >= 0 {
		next = min(next, l.departs.Add(-queue.Horizon/2).Sub(now))
	}
	if l.ripeningAt >= 0 {
		next = min(next, l.ripens.Sub(now))
	}
	next = max(min(next, e.untilOver(now)), shortestSleep)
	if full && l.agendaAt >= 0 && l.departs <= now.Add(queue.Horizon) {
		next = 0
	}
	l.told = now.Add(next)
	return next
}

// wakePullers wakes those who pull from a queue when they would look after at. They are taken
// to ask at once.
func (e *Engine) wakePullers(l *line, at, now leaky.Instant) {
	if at < l.told {
		l.told = now
		e.ears.tell(queue.Wakeup{Queue: l.spec.Name})
	}
}

// unrelated returns an error if a spec would make a pull queue a parent, those that are about
// to be one, or a child, included.
func (e *Engine) unrelated(s *queue.Spec) error {
	if parent := e.lines[queue.Parent(s.Name)]; parent != nil && parent.pulls {
		return s.PullChild()
	}
	if !s.Pull {
		return nil
	}
	if n := e.children[s.Name]; n > 0 {
		return s.PullParent(n)
	}
	return nil
}
