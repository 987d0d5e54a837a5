package boltq

import (
	"math/bits"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// grantDue visits the queues and groups that have something to depart.
func (e *Engine) grantDue(g *grant, now leaky.Instant) {
	if g.full { // it asked for nothing
		return
	}
	e.fireTimers(now)
	var visited []*agendaEntry
	for !g.full && e.agenda.len() > 0 && e.agenda.top().departsAt <= now.Add(queue.Horizon) {
		o := e.agenda.pop()
		if o.group == nil && g.usedUp(o.queue) {
			e.passOver(g, o)
			continue
		}
		visited = append(visited, o)
		switch {
		case o.queue.busy != nil:
		case o.group != nil:
			e.visitGroup(o.group, g, now)
		default:
			e.visitQueue(o.queue, g, now)
		}
	}
	for _, o := range visited {
		switch {
		case o.queue.busy != nil: // whoever is changing it arms it, if need be
			e.agenda.push(o)
		case o.group != nil:
			e.rearmGroup(o.group, now)
			e.passOverGroup(g, o.group, now)
		default:
			e.rearm(o.queue, now)
			e.passOverUsedUp(g, o.queue, now)
		}
	}
}

// visitQueue grants jobs of a queue that is in no group.
func (e *Engine) visitQueue(q *queueState, g *grant, now leaky.Instant) {
	g.countLost(q, q.departsAt, now)
	q.repairWindows(now)
	before, v := len(g.jobs), q.beginVisit(&laneBudget{})
	for !g.full && !g.usedUp(q) {
		d := q.opens(now)
		if d > now.Add(queue.Horizon) {
			q.repairBuckets(now)
			break
		}
		if q.atMaxInFlight() {
			break
		}
		ln := q.chooseLane(&v, d, now)
		if ln == nil {
			break
		}
		j := ln.waiting.front()
		if gone, more := e.expired(j, d, g, now); gone {
			continue
		} else if !more || !g.fits(j) || !q.affords(d, int64(j.cost)) {
			break
		}
		q.noteDeparture(d)
		q.take(d, now, int64(j.cost))
		e.grantJob(g, &v, j, d, now)
	}
	g.endVisit(q, len(g.jobs)-before, now)
}

// visitGroup grants jobs of a group's queues, which take turns.
func (e *Engine) visitGroup(k *group, g *grant, now leaky.Instant) {
	p := k.queue
	if k.ready.len() > 0 || p.freeSince(now) >= k.resting.top().departsAt {
		g.countLost(p, k.departsAt, now)
	} else {
		g.countLost(k.resting.top(), k.departsAt, now)
	}
	p.repairWindows(now)
	before, t := len(g.jobs), &groupVisit{group: k, shares: &g.shares}
	for !g.full {
		d := p.opens(now)
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
		gone, more := e.expired(j, d, g, now)
		if !gone && (!more || !g.fits(j)) {
			break
		}
		// Its own quotas first: what they stop uses up nothing that its siblings could have.
		if !gone && (q == p || q.affords(d, cost)) {
			if !p.affords(d, cost) {
				break
			}
			q.noteDeparture(d)
			p.take(d, now, cost)
			if q != p {
				q.take(d, now, cost)
			}
			e.grantJob(g, &q.member.visit, j, d, now)
			q.member.granted++
			k.noteServed(q, cost)
		}
		k.reposition(q, d, now)
	}
	e.endGroupVisit(t, g, now)
	if len(g.jobs) > before {
		g.needCeilings(p)
	}
}

// groupVisit is what is kept of a visit to a group while it lasts.
type groupVisit struct {
	group        *group
	shares       *shares
	visited      []*queueState // the members that were chosen
	busy         []*queueState // those that somebody is changing, out of their place
	overShare    []*queueState // those whose shares are used up, out of their place
	woken, tried int
	budget       laneBudget
}

// choose returns the member whose turn it is when the parent's next departure is at d, with the
// lane whose turn it is there, and when it departs; nil if there is none. What a visit to the member
// begins with is done when it is first chosen.
func (t *groupVisit) choose(d, now leaky.Instant) (*queueState, *lane, leaky.Instant) {
	k := t.group
	for {
		t.wakeMembers(d)
		if k.ready.len() == 0 && t.woken < wakeMembersMax && k.resting.len() > 0 && k.resting.top().departsAt <= now.Add(queue.Horizon) {
			d = k.resting.top().departsAt
			t.wakeMembers(d)
		}
		if k.ready.len() == 0 || t.tried == tryMembersMax {
			return nil, nil, 0
		}
		q := k.ready.top()
		if ln := t.tryMember(q, d, now); ln != nil {
			return q, ln, d
		}
		t.tried++
	}
}

// wakeMembers makes members ready that rest until d at most.
func (t *groupVisit) wakeMembers(d leaky.Instant) {
	for k := t.group; t.woken < wakeMembersMax && k.resting.len() > 0 && k.resting.top().departsAt <= d; t.woken++ {
		k.makeReady(k.resting.top())
	}
}

// tryMember returns the lane of a ready member whose turn it is at d; nil if it cannot go, and is not
// ready any more.
func (t *groupVisit) tryMember(q *queueState, d, now leaky.Instant) *lane {
	if q.busy != nil {
		q.member.leave()
		t.busy = append(t.busy, q)
		return nil
	}
	if t.shares.usedUp(q) {
		q.member.leave()
		t.overShare = append(t.overShare, q)
		return nil
	}
	if !q.member.visited {
		q.repairWindows(now)
		q.member.visited, q.member.visit = true, q.beginVisit(&t.budget)
		t.visited = append(t.visited, q)
	}
	if at := q.memberOpens(now); at > d {
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

// endGroupVisit finds anew the members that were chosen and are in no place.
func (e *Engine) endGroupVisit(t *groupVisit, g *grant, now leaky.Instant) {
	for _, q := range t.overShare { // with the turn that it had
		q.member.in, q.member.overShare = &t.group.ready, true
		t.group.ready.push(q)
	}
	for _, q := range t.visited {
		g.endVisit(q, q.member.granted, now)
		q.member.visited, q.member.granted = false, 0
		if at := q.memberOpens(now); q.member.in == nil && q.runnable() && q.canDepart(at) {
			t.group.rest(q, at)
		}
		e.armTimer(q)
	}
	for _, q := range t.busy { // whoever is changing it arms it, if need be
		t.group.makeReady(q)
	}
}

// countLost counts the departures that a queue could have had since.
func (g *grant) countLost(q *queueState, since, now leaky.Instant) {
	n := q.lostSlots(since, now)
	if n == 0 || q.receiver.opened != 0 && !q.isParent() { // what is down cannot be sent to
		return
	}
	if g.lost == nil {
		g.lost = map[string]int64{}
	}
	g.lost[q.spec.Name] += n
	q.unsaved.Lost += n
}

// lostSlots is how many departures the queue could have had since it became due.
func (q *queueState) lostSlots(since, now leaky.Instant) int64 {
	n, d := q.slowestRate().Fraction()
	if n == 0 || since >= now {
		return 0
	}
	hi, lo := bits.Mul64(uint64(now-since), uint64(n))
	if hi >= uint64(d) {
		return 0 // the clock jumped by ages
	}
	lost, _ := bits.Div64(hi, lo, uint64(d))
	return int64(lost)
}

// fits reports whether a job may be granted besides the others, whose first is always.
func (g *grant) fits(j *job) bool {
	if len(g.jobs) > 0 && g.bytes+int(j.size) > queue.MaxReserveBytes {
		g.full = true
	}
	return !g.full
}

// grantJob hands the job at the head of its lane to the client.
func (e *Engine) grantJob(g *grant, v *queueVisit, j *job, departs, now leaky.Instant) {
	q := j.lane.queue
	q.removeWaiting(j)
	g.bytes += int(j.size)
	g.use(q)
	g.jobs = append(g.jobs, e.lease(j, g.drainer, departs))
	if q.spec.Lends() {
		e.persistLease(g, j)
	}
	q.laneGranted(v, j.lane, departs, now, int64(j.cost))
	g.full = len(g.jobs) == g.max
}

// endVisit ends a visit to a queue that was granted n departures.
func (g *grant) endVisit(q *queueState, n int, now leaky.Instant) {
	if n == 0 {
		return
	}
	q.outflow.add(now, int64(n))
	if !q.isParent() {
		g.needCeilings(q)
	}
}

// needCeilings notes the ceilings that a grant needs.
func (g *grant) needCeilings(q *queueState) {
	if !q.spec.Rate.Unlimited() || len(q.limits) > 0 {
		g.needs = append(g.needs, ceilingNeed{q, q.neededCeilings(), q.pacer, q.changed, q.spec.Limits})
	}
}

// lease hands a job to a client.
func (e *Engine) lease(j *job, drainer string, departs leaky.Instant) granted {
	e.lastFence++
	q, ls := j.lane.queue, j.ensureLease()
	ls.fence = fence{e.epoch, e.lastFence}
	ls.due, ls.deadline = departs, departs.Add(q.spec.Lease.D())
	ls.drainer = drainer
	q.lastFence = e.lastFence
	if q.group != nil {
		q.group.lastFence = e.lastFence
	}
	e.setState(j, queue.Leased)
	e.leases.push(ls)
	return granted{job: j, fence: ls.fence, departs: departs, attempt: ls.attempts + 1}
}
