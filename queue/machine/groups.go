package machine

import (
	"iter"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

const (
	wakeMembersMax = 100 // resting members made ready per visit
	tryMembersMax  = 100 // members chosen per visit that cannot go
)

// group is a parent and its children. All of them, the parent included, are members that take turns by start-time fair
// queueing. The group is on the agenda in their place. A pull child is on the agenda of the pull queues, and takes part
// in the turns by its claim.
type group struct {
	agendaEntry
	resting  heap[*queueState] // by departsAt
	ready    heap[*queueState] // by tag
	claims   heap[*queueState] // pull children whose clients wait for a departure, by tag
	served   int64             // the tag of the member that was served last
	floor    int64             // served, as of the latest job of a pull child
	leftFor  leaky.Instant     // when to look again at a slot that the visit under way left to others; 0 if it left none
	since    leaky.Instant
	children int

	waiting        int64 // waiting jobs in all members
	membersWaiting int64 // members with waiting jobs
	incoming       int64 // incoming jobs that will wait
	// weights is the sum of the weights of all children; weightWaiting and weightIncoming count only members with
	// waiting jobs, and with waiting or incoming jobs.
	weights, weightWaiting, weightIncoming int64

	lastFence uint64 // of the latest grant
	slotBack  bool   // a slot was given back since the group was armed
}

// member is a queue's place in its group.
type member struct {
	in        *heap[*queueState] // resting, ready, claims or nil
	heapIndex int
	tag       int64 // of a ready member
	finish    int64 // the tag at the end of its latest turn
	// State of the visit under way: whether the member was tried, its own visit, and how many departures it was
	// granted.
	visited   bool
	visit     queueVisit
	granted   int
	overShare bool // it was passed over because the client's share of it is used up
}

func (m *member) leave() {
	if m != nil && m.in != nil {
		m.in.remove(m.heapIndex)
		m.in = nil
	}
}

func newGroup(parent *queueState) *group {
	moved := func(q *queueState, i int) { q.member.heapIndex = i }
	return &group{
		agendaEntry: agendaEntry{queue: parent, agendaIndex: -1}, lastFence: parent.lastFence,
		resting: heap[*queueState]{
			key: func(q *queueState) heapKey { return heapKey{int64(q.departsAt), q.number} }, moved: moved,
		},
		ready: heap[*queueState]{key: memberTurn, moved: moved}, claims: heap[*queueState]{key: memberTurn, moved: moved},
	}
}

func memberTurn(q *queueState) heapKey { return heapKey{q.member.tag, q.number} }

// isPullChild reports whether q is a pull queue in a group. A parent is never a pull queue.
func (q *queueState) isPullChild() bool { return q.group != nil && q.spec.Pull }

func (q *queueState) isParent() bool { return q.group != nil && q.group.queue == q }

// parent returns the parent, whose paces apply to q too, or nil.
func (q *queueState) parent() *queueState {
	if q.group == nil || q.group.queue == q {
		return nil
	}
	return q.group.queue
}

// groupMaxCost returns the greatest cost ever appended to a queue or its children.
func (q *queueState) groupMaxCost() int64 { return int64(max(q.maxCost, q.childMaxCost)) }

// memberOpens returns when q lets a job out as a member. The parent's own paces apply to the whole group, so for the
// parent only its stop counts.
func (q *queueState) memberOpens(now leaky.Instant) leaky.Instant {
	if q.isParent() {
		return max(now, q.receiver.stop)
	}
	return q.opens(now)
}

// joinGroup makes a new queue a member of its parent's group, or the parent of its children.
func (m *Machine) joinGroup(q *queueState, now leaky.Instant) {
	if name := names.Parent(q.name); name != "" {
		if p := m.queues[name]; p != nil {
			m.addMember(m.ensureGroup(p, now), q, now)
		}
		return
	}
	for _, name := range m.childrenOf(q.name) {
		m.addMember(m.ensureGroup(q, now), m.queues[name], now)
	}
}

// childrenOf returns the names of the existing children of a name.
func (m *Machine) childrenOf(name string) (children []string) {
	for child := range m.namesBehind(name + ".") {
		if names.Parent(child) != name {
			break
		}
		children = append(children, child)
	}
	return children
}

// namesBehind yields the names of queues after a name, in order.
func (m *Machine) namesBehind(name string) iter.Seq[string] {
	return m.queueNames.from(func(s string) bool { return s > name })
}

// countChild adds n to the number of children of child's parent.
func (m *Machine) countChild(child string, n int) {
	parent := names.Parent(child)
	if m.children[parent] += n; m.children[parent] == 0 {
		delete(m.children, parent)
	}
}

// ensureGroup returns the group of a parent, created for its first child.
func (m *Machine) ensureGroup(p *queueState, now leaky.Instant) *group {
	if p.group == nil {
		g := newGroup(p)
		g.group = g
		m.addMember(g, p, now)
	}
	return p.group
}

// addMember adds a member, which keeps its instant on the agenda.
func (m *Machine) addMember(g *group, q *queueState, now leaky.Instant) {
	able := q.agendaIndex >= 0
	updateHeap(m.agendaOf(q), &q.agendaEntry, q.agendaIndex, false)
	q.group, q.member = g, &member{}
	if q != g.queue {
		g.children++
		g.weights += q.spec.Share()
	}
	g.count(q, 1)
	m.putOnAgenda(q, able, now)
}

// leaveGroup removes a deleted queue from its group. The group ends with its last child.
func (m *Machine) leaveGroup(q *queueState, now leaky.Instant) {
	g := q.group
	if g == nil {
		return
	}
	q.member.leave()
	g.count(q, -1)
	q.group, q.member = nil, nil
	g.weights -= q.spec.Share()
	if g.children--; g.children > 0 {
		m.armGroup(g, now)
		return
	}
	p := g.queue
	p.member.leave()
	updateHeap(&m.agenda, &g.agendaEntry, g.agendaIndex, false)
	p.group, p.member, p.lastFence = nil, nil, g.lastFence // earlier departures cannot be given back
	m.rearm(p, now)
}

// count adds the jobs of q to the group's counts; sign -1 subtracts them. Jobs of pull children do not count: whether
// they take any of the group's slots is up to their clients.
func (g *group) count(q *queueState, sign int64) {
	if q.spec.Pull {
		return
	}
	waiting, coming := q.counts[queue.Waiting], q.incoming.waiting
	g.waiting += sign * waiting
	g.incoming += sign * coming
	if waiting > 0 {
		g.membersWaiting += sign
		g.weightWaiting += sign * q.spec.Share()
	}
	if waiting+coming > 0 {
		g.weightIncoming += sign * q.spec.Share()
	}
}

// addWaiting counts n more waiting jobs of q; n is 1 or -1.
func (g *group) addWaiting(q *queueState, n int64) {
	if q.spec.Pull {
		return
	}
	g.waiting += n
	more := crossedZero(q.counts[queue.Waiting], n)
	g.membersWaiting += more
	g.weightWaiting += more * q.spec.Share()
	g.weightIncoming += crossedZero(q.counts[queue.Waiting]+q.incoming.waiting, n) * q.spec.Share()
}

// addIncoming counts n more incoming jobs of q; n is 1 or -1.
func (g *group) addIncoming(q *queueState, n int64) {
	if q.spec.Pull {
		return
	}
	g.incoming += n
	g.weightIncoming += crossedZero(q.counts[queue.Waiting]+q.incoming.waiting, n) * q.spec.Share()
}

// crossedZero returns 1 if adding n made number positive, -1 if it made it 0, else 0.
func crossedZero(number, n int64) int64 {
	switch {
	case n > 0 && number == n:
		return 1
	case n < 0 && number == 0:
		return -1
	}
	return 0
}

// refundQuotas gives a departure back to the quotas and budgets that counted it. Slots that only this refund makes
// available do not count as lost.
func (q *queueState) refundQuotas(ls *lease, of bill, now leaky.Instant) {
	if g := q.group; g != nil {
		g.since = max(g.since, min(now, g.queue.freeSince(now)))
	}
	q.refund(ls.due, now, of)
	if p := q.parent(); p != nil {
		p.refund(ls.due, now, of)
	}
	q.rechargeLane(ls.job.lane, now, func(p *paces) { p.refund(ls.due, now, of) })
}

// givenBack is a departure that was given back: to quotas, and to the buckets of its queue and group if it was their
// latest.
type givenBack struct {
	lease      *lease
	own, group bool
	// actual says that it is not a departure, but a correction of its charges at an instant.
	actual map[string]int64
	at     leaky.Instant
}

// giveBackDeparture gives back a departure that was never used.
func (q *queueState) giveBackDeparture(ls *lease, of bill, now leaky.Instant) givenBack {
	q.refundQuotas(ls, of, now)
	g, fence := q.group, ls.fence.number
	b := givenBack{own: fence == q.lastFence && (g == nil || q.parent() != nil), group: g != nil && fence == g.lastFence}
	if b.own {
		q.giveBack()
	}
	if b.group {
		g.queue.giveBack()
		g.slotBack = true
	}
	return b
}

// takeAgain undoes giveBackDeparture, refundQuotas or correctCharges.
func (q *queueState) takeAgain(b givenBack, now leaky.Instant) {
	d, of := b.lease.due, b.lease.job.bill()
	p := q.parent()
	if b.actual != nil {
		if q.uncorrect(b, now, of); p != nil {
			p.uncorrect(b, now, of)
		}
		return
	}
	if q.takeQuotas(d, now, of); p != nil {
		p.takeQuotas(d, now, of)
	}
	if b.own {
		q.takeBuckets(d, now, of.cost)
	}
	if b.group && q.group != nil {
		q.group.queue.takeBuckets(d, now, of.cost)
	}
}

// armGroup updates when a member of a group can next depart.
func (m *Machine) armGroup(g *group, now leaky.Instant) {
	p := g.queue
	able := p.runnable() && g.ready.len()+g.resting.len() > 0
	if able {
		g.departsAt = max(g.since, p.freeSince(now))
		if g.ready.len() == 0 {
			g.departsAt = max(g.departsAt, g.resting.top().departsAt)
		}
	}
	updateHeap(&m.agenda, &g.agendaEntry, g.agendaIndex, able)
	g.slotBack = false
}

// rearmGroup is armGroup after a visit, a change of the parent's spec, or a pause. Earlier slots are not lost.
func (m *Machine) rearmGroup(g *group, now leaky.Instant) {
	g.since = now
	m.armGroup(g, now)
}

func (g *group) rest(q *queueState, until leaky.Instant) {
	q.member.leave()
	q.departsAt = until
	q.member.in = &g.resting
	g.resting.push(q)
}

func (g *group) makeReady(q *queueState) {
	q.member.leave()
	q.member.tag = max(q.member.finish, g.served)
	q.member.in = &g.ready
	g.ready.push(q)
}

// tagOf returns the tag by which a member takes its turn.
func (g *group) tagOf(q *queueState, now leaky.Instant) int64 {
	if q.spec.Pull {
		return max(q.member.tag, g.served-g.credit(q, now))
	}
	return max(q.member.tag, g.floor-g.credit(q, now))
}

func (g *group) noteServed(q *queueState, cost int64, now leaky.Instant) {
	s, tag := q.member, g.tagOf(q, now)
	g.served, s.finish = tag, tag+tagLength(cost, q.spec.Share())
	s.tag = s.finish
	if q.spec.Pull {
		g.floor = max(g.floor, g.served)
	} else {
		g.ready.fix(s.heapIndex)
	}
}

// reposition updates the place of a ready member after one of its jobs was dealt with at d.
func (g *group) reposition(q *queueState, d, now leaky.Instant) {
	next := max(d, q.memberOpens(now))
	if !q.isParent() {
		next = q.hours.next(next, now)
	}
	if q.isPullChild() || !q.canDepart(next) {
		q.member.leave()
	} else if next > d {
		g.rest(q, next)
	}
}

// claimKept is how late the clients of a pull child may be before others take the slot that is its turn.
const claimKept = queue.Horizon / 2

// hasClients reports whether the clients of a pull child still wait for its jobs, as far as they said.
func (q *queueState) hasClients(now leaky.Instant) bool { return q.pullersAskAt.Add(claimKept) > now }

// rejoin gives a pull child its tag when a client asks for its jobs. Without a claim it joins as a newly active member
// does, so an idle one saves up no turns.
func (g *group) rejoin(q *queueState, now leaky.Instant) {
	s := q.member
	if s.in == nil || !q.hasClients(now) {
		s.tag = max(s.finish, g.served)
	}
	s.leave()
}

// claim keeps the turn of a pull child whose clients got less than they asked for, if it waits for the group.
func (g *group) claim(q *queueState, now leaky.Instant) {
	if p := g.queue; q.agendaIndex >= 0 && (!p.runnable() || q.departsAt <= p.opens(now)) {
		q.member.in = &g.claims
		g.claims.push(q)
	}
}

// firstClaim returns the pull child with a claim whose turn is first, or nil. Claims whose clients are late lapse.
func (g *group) firstClaim(now leaky.Instant) *queueState {
	for g.claims.len() > 0 {
		q := g.claims.top()
		if q.hasClients(now) {
			return q
		}
		q.member.leave()
	}
	return nil
}

// wakeClaims wakes the clients of pull children after the parent's pace has changed, or its pause is over.
func (m *Machine) wakeClaims(g *group, now leaky.Instant) {
	if !g.queue.runnable() {
		return
	}
	for q := range g.claims.all {
		m.wakePullers(q, g.queue.opens(now), now)
	}
}
