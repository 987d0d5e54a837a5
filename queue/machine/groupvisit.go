package machine

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// visitGroup grants jobs of a group's members, which take turns: those of a pull child to a client that pulls from it,
// those of all other members to a drainer, for which pulled is nil.
func (m *Machine) visitGroup(grp *group, pulled *queueState, g *grant, now leaky.Instant) {
	p := grp.queue
	before, t := len(g.jobs), &groupVisit{
		group: grp, pulled: pulled, grant: g, watch: &m.watch, budget: laneBudget{reigns: g.reigns},
	}
	t.countLost(now)
	p.repairWindows(now)
	for !g.full && !g.atVisitLimit() {
		d := g.departureFor(p, true, now)
		if d > now.Add(queue.Horizon) {
			p.repairBuckets(now)
			break
		}
		q, ln, d := t.choose(d, now)
		if q == nil || p.hours.next(d, now) > d || t.leavesSlot(q, now) {
			break
		}
		j := ln.waiting.front()
		of := j.bill()
		gone, more := m.expired(j, d, g, now)
		if !gone && (!more || !g.fits(j)) {
			break
		}
		// The member's own quotas first: what they refuse must not use up the parent's.
		if !gone && (q == p || q.hasCredit(g.reigns, d, of)) {
			if !p.hasCredit(g.reigns, d, of) {
				continue // it departs when there is enough
			}
			if q == p || q.affords(d, of) {
				if !p.affords(d, of) {
					break
				}
				m.grantOfMember(t, q, j, d, now)
			}
		}
		grp.reposition(q, d, now)
	}
	m.endGroupVisit(t, g, now)
	if len(g.jobs) > before {
		g.wait = max(g.wait, m.raiseForGrant(p))
	}
}

// grantOfMember grants a job of a member, to depart at d.
func (m *Machine) grantOfMember(t *groupVisit, q *queueState, j *job, d, now leaky.Instant) {
	p, g, of := t.group.queue, t.grant, j.bill()
	if g.shift(&q.paces); q != p {
		g.shift(&p.paces)
	}
	q.noteDeparture(d)
	if p.take(d, now, of); q != p {
		q.take(d, now, of)
	}
	m.grantJob(g, &q.member.visit, j, d, now)
	g.notePaced(d)
	q.member.granted++
	t.group.noteServed(q, of.cost, now)
}

type groupVisit struct {
	group        *group
	pulled       *queueState // the only member visited; nil for all that drainers serve
	grant        *grant
	watch        *watch
	visited      []*queueState // members that were tried
	overShare    []*queueState // members of which the client has its share, removed from their heap
	woken, tried int
	budget       laneBudget
}

// countLost counts the slots that the group could have had, for the parent or the member that delayed them.
func (t *groupVisit) countLost(now leaky.Instant) {
	grp, p := t.group, t.group.queue
	first, since, anyReady := t.pulled, grp.departsAt, false
	if t.pulled != nil {
		since, _ = t.pulled.pullsFrom(now)
	} else if anyReady = grp.ready.len() > 0; !anyReady {
		first = grp.resting.top()
	}
	if anyReady || p.freeSince(now) >= first.departsAt {
		first = p
	}
	if first != p && p.hours != nil && since < now {
		since = max(since, p.hours.since(now, now))
	}
	t.grant.countLost(first, since, now)
}

// choose returns the member whose turn it is when the parent's next departure is at d, the lane whose turn it is, and
// when that departs; nil if no member can go.
func (t *groupVisit) choose(d, now leaky.Instant) (*queueState, *lane, leaky.Instant) {
	grp := t.group
	if q := t.pulled; q != nil {
		if d = q.hours.next(max(d, t.grant.apart(&q.paces, q.memberOpens(now), now)), now); d > now.Add(queue.Horizon) {
			return nil, nil, 0
		}
		if ln := t.tryMember(q, d, now); ln != nil {
			return q, ln, d
		}
		return nil, nil, 0
	}
	for {
		t.wakeMembers(d)
		if grp.ready.len() == 0 && t.woken < wakeMembersMax && grp.resting.len() > 0 &&
			grp.resting.top().departsAt <= now.Add(queue.Horizon) {
			d = grp.resting.top().departsAt
			t.wakeMembers(d)
		}
		if grp.ready.len() == 0 || t.tried == tryMembersMax {
			return nil, nil, 0
		}
		q := grp.ready.top()
		if ln := t.tryMember(q, d, now); ln != nil {
			return q, ln, d
		}
		t.tried++
	}
}

func (t *groupVisit) wakeMembers(d leaky.Instant) {
	for grp := t.group; t.woken < wakeMembersMax && grp.resting.len() > 0 && grp.resting.top().departsAt <= d; t.woken++ {
		grp.makeReady(grp.resting.top())
	}
}

// tryMember returns the lane of a ready member whose turn it is at d. It returns nil if the member cannot go and is no
// longer ready. The first try begins a visit to the member.
func (t *groupVisit) tryMember(q *queueState, d, now leaky.Instant) *lane {
	if t.grant.usedUp(q) {
		q.member.leave()
		t.overShare = append(t.overShare, q)
		return nil
	}
	if !q.member.visited {
		q.repairWindows(now)
		t.grant.visits++
		q.member.visited, q.member.visit = true, q.beginVisit(&t.budget, now)
		t.visited = append(t.visited, q)
	}
	at := q.memberOpens(now)
	if !q.isParent() {
		at = q.hours.next(max(d, t.grant.apart(&q.paces, at, now)), now)
	}
	if at > d {
		t.group.rest(q, at)
		return nil
	}
	if !q.atMaxInFlight() {
		if ln := q.chooseLane(&q.member.visit, d, now); ln != nil {
			return ln
		}
	}
	q.member.leave()
	return nil
}

const (
	// A slot is left to the member whose turn it is, while its clients can be expected to ask slotKept before it. After
	// that any client may take it, so no member holds up another.
	slotKept = queue.Horizon / 4
	// leastPatience is the least time after which a client looks again at a slot that it left to others.
	leastPatience = queue.Horizon / 8
)

// leavesSlot reports whether the slot that a member could have is left to a member that other clients serve.
func (t *groupVisit) leavesSlot(q *queueState, now leaky.Instant) bool {
	grp := t.group
	opens := max(grp.queue.opens(now), q.memberOpens(now))
	until := opens.Add(-slotKept)
	if now >= until || !t.othersFirst(q, opens, until, now) {
		return false
	}
	grp.leftFor = max(until, now.Add(leastPatience))
	return true
}

// othersFirst reports whether it is the turn of a member that other clients serve, and will ask for by an instant.
func (t *groupVisit) othersFirst(q *queueState, opens, until, now leaky.Instant) bool {
	grp := t.group
	turn := grp.tagOf(q, now)
	before := func(other *queueState) bool {
		tag := grp.tagOf(other, now)
		return tag < turn || tag == turn && other.number < q.number
	}
	if other := grp.firstClaim(now); other != nil && other.pullersAskAt <= until && before(other) {
		return true
	}
	if t.pulled == nil || !t.watch.asksBy(until, now) {
		return false
	}
	if grp.ready.len() > 0 && before(grp.ready.top()) {
		return true
	}
	// A member that stops resting joins with this tag, or a greater one.
	return grp.resting.len() > 0 && grp.resting.top().departsAt <= opens && grp.served < turn
}

func (m *Machine) endGroupVisit(t *groupVisit, g *grant, now leaky.Instant) {
	for _, q := range t.overShare { // its turn stays as it was
		q.member.in, q.member.overShare = &t.group.ready, true
		t.group.ready.push(q)
	}
	for _, q := range t.visited {
		m.endVisit(g, q, q.member.granted, now)
		q.member.visited, q.member.granted = false, 0
		if at := q.memberOpens(now); t.pulled == nil && q.member.in == nil && q.runnable() && q.canDepart(at) {
			t.group.rest(q, at)
		}
		m.armTimer(q)
	}
}
