package machine

import (
	"maps"
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// shares says how many jobs of which queues a client may still have. A queue of which it has its share keeps its
// place on the agenda for other clients, and does not count when this client is told when to ask again.
type shares struct {
	left map[string]int // by queue; a queue that is not named has no bound
	// passedOver is off the agenda until it is known when the client is to ask again.
	passedOver []*agendaEntry
	// next is when something can depart from a group some of whose members were passed over; never if nothing can.
	next       leaky.Instant
	short      []string // queues of which more was due
	newlyShort bool     // some of those were not short in the client's previous request
}

func newShares(r queue.ReserveRequest) shares {
	if r.Queue != "" {
		return shares{next: never}
	}
	return shares{left: maps.Clone(r.Shares), next: never}
}

// usedUp reports whether the client may have no more jobs of q.
func (s *shares) usedUp(q *queueState) bool {
	left, named := s.left[q.name]
	return named && left <= 0
}

func (s *shares) use(q *queueState) {
	if left, named := s.left[q.name]; named {
		s.left[q.name] = left - 1
	}
}

// noteShort sorts the short queues, and reports whether one is among them that was not before.
func (s *shares) noteShort(before []string) bool {
	slices.Sort(s.short)
	return slices.ContainsFunc(s.short, func(name string) bool { return !slices.Contains(before, name) })
}

// passOver leaves a due queue to other clients.
func (m *Machine) passOver(g *grant, o *agendaEntry) {
	updateHeap(&m.agenda, o, o.agendaIndex, false)
	g.passedOver = append(g.passedOver, o)
	g.short = append(g.short, o.queue.name)
}

// passOverUsedUp does so after a visit, if the client has its share of the queue and more of it is due.
func (m *Machine) passOverUsedUp(g *grant, q *queueState, now leaky.Instant) {
	if g.usedUp(q) && q.agendaIndex >= 0 && q.departsAt <= now.Add(queue.Horizon) {
		m.passOver(g, &q.agendaEntry)
	}
}

// passOverGroup does so after a visit to a group of which only members could depart whose shares are used up.
func (m *Machine) passOverGroup(g *grant, k *group, now leaky.Instant) {
	overShare := 0
	for q := range k.ready.all {
		if q.member.overShare {
			q.member.overShare = false
			g.short = append(g.short, q.name)
			overShare++
		}
	}
	if overShare == 0 || overShare < k.ready.len() || k.agendaIndex < 0 {
		return
	}
	if k.resting.len() > 0 {
		g.next = min(g.next, max(k.since, k.queue.freeSince(now), k.resting.top().departsAt))
	}
	updateHeap(&m.agenda, &k.agendaEntry, k.agendaIndex, false)
	g.passedOver = append(g.passedOver, &k.agendaEntry)
}

// restorePassed puts what was passed over back on the agenda.
func (m *Machine) restorePassed(g *grant) {
	for _, o := range g.passedOver {
		m.agenda.push(o)
	}
	g.passedOver = nil
}

// firstDeparture is when something can next depart that the client may have.
func (m *Machine) firstDeparture(g *grant) leaky.Instant {
	if m.agenda.len() > 0 {
		return min(g.next, m.agenda.top().departsAt)
	}
	return g.next
}
