package boltq

import (
	"maps"
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// shares is what a request says of how many jobs a client may have of a queue, and what follows of it. What it may
// have no more of is left to others: it keeps its place on the agenda, and does not tell this client when to ask.
type shares struct {
	left map[string]int // of the queues that were named
	// passed are off the agenda while it is worked out when the client is to ask.
	passed []*outlet
	// next is when something can depart from a group some of whose members were passed over; never, if nothing can.
	next  leaky.Instant
	short []string // queues of which more was due
	news  bool     // others than in the client's last request
}

func newShares(r queue.ReserveRequest) shares {
	if r.Queue != "" {
		return shares{next: never}
	}
	return shares{left: maps.Clone(r.Shares), next: never}
}

// spent reports whether the client may have no more jobs of a queue.
func (s *shares) spent(l *line) bool {
	left, named := s.left[l.spec.Name]
	return named && left <= 0
}

func (s *shares) use(l *line) {
	if left, named := s.left[l.spec.Name]; named {
		s.left[l.spec.Name] = left - 1
	}
}

// differs notes the order of the short queues, and reports whether one is among them that was not before.
func (s *shares) differs(before []string) bool {
	slices.Sort(s.short)
	return slices.ContainsFunc(s.short, func(name string) bool { return !slices.Contains(before, name) })
}

// passOver leaves a queue that is due to other clients.
func (e *Engine) passOver(g *grant, o *outlet) {
	place(&e.agenda, o, o.agendaAt, false)
	g.passed = append(g.passed, o)
	g.short = append(g.short, o.of.spec.Name)
}

// passOverSpent does so after a visit, if the queue's share is used up and more of it is due.
func (e *Engine) passOverSpent(g *grant, l *line, now leaky.Instant) {
	if g.spent(l) && l.agendaAt >= 0 && l.departs <= now.Add(queue.Horizon) {
		e.passOver(g, &l.outlet)
	}
}

// passOverGroup does so after a visit to a group in which only members could depart whose shares are used up.
func (e *Engine) passOverGroup(g *grant, k *group, now leaky.Instant) {
	aside := 0
	for _, l := range k.ready.items {
		if l.seat.aside {
			l.seat.aside = false
			g.short = append(g.short, l.spec.Name)
			aside++
		}
	}
	if aside == 0 || aside < k.ready.len() || k.agendaAt < 0 {
		return
	}
	if k.resting.len() > 0 {
		g.next = min(g.next, max(k.since, k.of.free(now), k.resting.top().departs))
	}
	place(&e.agenda, &k.outlet, k.agendaAt, false)
	g.passed = append(g.passed, &k.outlet)
}

// putBack puts what was passed over where it stood.
func (e *Engine) putBack(g *grant) {
	for _, o := range g.passed {
		e.agenda.push(o)
	}
	g.passed = nil
}

// first is when something can depart that a client may have.
func (e *Engine) first(g *grant) leaky.Instant {
	if e.agenda.len() > 0 {
		return min(g.next, e.agenda.top().departs)
	}
	return g.next
}
