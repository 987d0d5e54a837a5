package machine

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// visitGroup grants jobs of a group's members, which take turns.
func (m *Machine) visitGroup(grp *group, g *grant, now leaky.Instant) {
	p := grp.queue
	if grp.ready.len() > 0 || p.freeSince(now) >= grp.resting.top().departsAt {
		g.countLost(p, grp.departsAt, now)
	} else {
		g.countLost(grp.resting.top(), grp.departsAt, now)
	}
	p.repairWindows(now)
	before, t := len(g.jobs), &groupVisit{group: grp, grant: g, budget: laneBudget{reigns: g.reigns}}
	for !g.full && !g.atVisitLimit() {
		d := g.departureFor(p, true, now)
		if d > now.Add(queue.Horizon) {
			p.repairBuckets(now)
			break
		}
		q, ln, d := t.choose(d, now)
		if q == nil {
			break
		}
		j := ln.waiting.front()
		cost := int64(j.cost)
		gone, more := m.expired(j, d, g, now)
		if !gone && (!more || !g.fits(j)) {
			break
		}
		// The member's own quotas first: what they refuse must not use up the parent's.
		if !gone && (q == p || q.affords(d, cost)) {
			if !p.affords(d, cost) {
				break
			}
			q.noteDeparture(d)
			g.shift(&p.paces)
			p.take(d, now, cost)
			if q != p {
				g.shift(&q.paces)
				q.take(d, now, cost)
			}
			m.grantJob(g, &q.member.visit, j, d, now)
			g.notePaced(d)
			q.member.granted++
			grp.noteServed(q, cost)
		}
		grp.reposition(q, d, now)
	}
	m.endGroupVisit(t, g, now)
	if len(g.jobs) > before {
		g.wait = max(g.wait, m.raiseForGrant(p))
	}
}

type groupVisit struct {
	group        *group
	grant        *grant
	visited      []*queueState // members that were tried
	overShare    []*queueState // members of which the client has its share, removed from their heap
	woken, tried int
	budget       laneBudget
}

// choose returns the member whose turn it is when the parent's next departure is at d, the lane whose turn it is, and
// when that departs; nil if no member can go.
func (t *groupVisit) choose(d, now leaky.Instant) (*queueState, *lane, leaky.Instant) {
	grp := t.group
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
		q.member.visited, q.member.visit = true, q.beginVisit(&t.budget)
		t.visited = append(t.visited, q)
	}
	at := q.memberOpens(now)
	if !q.isParent() {
		at = t.grant.apart(&q.paces, at, now)
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

func (m *Machine) endGroupVisit(t *groupVisit, g *grant, now leaky.Instant) {
	for _, q := range t.overShare { // its turn stays as it was
		q.member.in, q.member.overShare = &t.group.ready, true
		t.group.ready.push(q)
	}
	for _, q := range t.visited {
		m.endVisit(g, q, q.member.granted, now)
		q.member.visited, q.member.granted = false, 0
		if at := q.memberOpens(now); q.member.in == nil && q.runnable() && q.canDepart(at) {
			t.group.rest(q, at)
		}
		m.armTimer(q)
	}
}
