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
	// passedOver are off the agenda while it is worked out when the client is to ask.
	passedOver []*agendaEntry
	// next is when something can depart from a group some of whose members were passed over; never, if nothing can.
	next       leaky.Instant
	short      []string // queues of which more was due
	newlyShort bool     // others than in the client's last request
}

func newShares(r queue.ReserveRequest) shares {
	if r.Queue != "" {
		return shares{next: never}
	}
	return shares{left: maps.Clone(r.Shares), next: never}
}

// usedUp reports whether the client may have no more jobs of a queue.
func (s *shares) usedUp(q *queueState) bool {
	left, named := s.left[q.spec.Name]
	return named && left <= 0
}

func (s *shares) use(q *queueState) {
	if left, named := s.left[q.spec.Name]; named {
		s.left[q.spec.Name] = left - 1
	}
}

// noteShort notes the order of the short queues, and reports whether one is among them that was not before.
func (s *shares) noteShort(before []string) bool {
	slices.Sort(s.short)
	return slices.ContainsFunc(s.short, func(name string) bool { return !slices.Contains(before, name) })
}

// passOver leaves a queue that is due to other clients.
func (e *Engine) passOver(g *grant, o *agendaEntry) {
	updateHeap(&e.agenda, o, o.agendaIndex, false)
	g.passedOver = append(g.passedOver, o)
	g.short = append(g.short, o.queue.spec.Name)
}

// passOverUsedUp does so after a visit, if the queue's share is used up and more of it is due.
func (e *Engine) passOverUsedUp(g *grant, q *queueState, now leaky.Instant) {
	if g.usedUp(q) && q.agendaIndex >= 0 && q.departsAt <= now.Add(queue.Horizon) {
		e.passOver(g, &q.agendaEntry)
	}
}

// passOverGroup does so after a visit to a group in which only members could depart whose shares are used up.
func (e *Engine) passOverGroup(g *grant, k *group, now leaky.Instant) {
	aside := 0
	for _, q := range k.ready.items {
		if q.member.overShare {
			q.member.overShare = false
			g.short = append(g.short, q.spec.Name)
			aside++
		}
	}
	if aside == 0 || aside < k.ready.len() || k.agendaIndex < 0 {
		return
	}
	if k.resting.len() > 0 {
		g.next = min(g.next, max(k.since, k.queue.freeSince(now), k.resting.top().departsAt))
	}
	updateHeap(&e.agenda, &k.agendaEntry, k.agendaIndex, false)
	g.passedOver = append(g.passedOver, &k.agendaEntry)
}

// restorePassed puts what was passed over where it stood.
func (e *Engine) restorePassed(g *grant) {
	for _, o := range g.passedOver {
		e.agenda.push(o)
	}
	g.passedOver = nil
}

// firstDeparture is when something can depart that a client may have.
func (e *Engine) firstDeparture(g *grant) leaky.Instant {
	if e.agenda.len() > 0 {
		return min(g.next, e.agenda.top().departsAt)
	}
	return g.next
}
