package boltq

import (
	"math/bits"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// grant visits the queues and groups that have something to depart.
func (e *Engine) grant(g *grant, now leaky.Instant) {
	if g.full { // it asked for nothing
		return
	}
	e.ripen(now)
	var visited []*outlet
	for !g.full && e.agenda.len() > 0 && e.agenda.top().departs <= now.Add(queue.Horizon) {
		o := e.agenda.pop()
		if o.whole == nil && g.spent(o.of) {
			e.passOver(g, o)
			continue
		}
		visited = append(visited, o)
		switch {
		case o.of.busy != nil:
		case o.whole != nil:
			e.visitGroup(o.whole, g, now)
		default:
			e.visit(o.of, g, now)
		}
	}
	for _, o := range visited {
		switch {
		case o.of.busy != nil: // whoever is changing it arms it, if need be
			e.agenda.push(o)
		case o.whole != nil:
			e.rearmGroup(o.whole, now)
			e.passOverGroup(g, o.whole, now)
		default:
			e.rearm(o.of, now)
			e.passOverSpent(g, o.of, now)
		}
	}
}

// visit grants jobs of a queue that is in no group.
func (e *Engine) visit(l *line, g *grant, now leaky.Instant) {
	g.miss(l, l.departs, now)
	l.mend(now)
	before, v := len(g.jobs), l.begin(&moved{})
	for !g.full && !g.spent(l) {
		d := l.opens(now)
		if d > now.Add(queue.Horizon) {
			l.mendBuckets(now)
			break
		}
		if l.crowded() {
			break
		}
		ln := l.choose(&v, d, now)
		if ln == nil {
			break
		}
		j := ln.fifo.front()
		if gone, more := e.expired(j, d, g, now); gone {
			continue
		} else if !more || !g.fits(j) || !l.affords(d, int64(j.cost)) {
			break
		}
		l.setOut(d)
		l.take(d, now, int64(j.cost))
		e.let(g, &v, j, d, now)
	}
	g.close(l, len(g.jobs)-before, now)
}

// visitGroup grants jobs of a group's queues, which take turns.
func (e *Engine) visitGroup(k *group, g *grant, now leaky.Instant) {
	p := k.of
	if k.ready.len() > 0 || p.free(now) >= k.resting.top().departs {
		g.miss(p, k.departs, now)
	} else {
		g.miss(k.resting.top(), k.departs, now)
	}
	p.mend(now)
	before, t := len(g.jobs), &tour{group: k, shares: &g.shares}
	for !g.full {
		d := p.opens(now)
		if d > now.Add(queue.Horizon) {
			p.mendBuckets(now)
			break
		}
		l, ln, d := t.choose(d, now)
		if l == nil {
			break
		}
		j := ln.fifo.front()
		cost := int64(j.cost)
		gone, more := e.expired(j, d, g, now)
		if !gone && (!more || !g.fits(j)) {
			break
		}
		// Its own quotas first: what they stop uses up nothing that its siblings could have.
		if !gone && (l == p || l.affords(d, cost)) {
			if !p.affords(d, cost) {
				break
			}
			l.setOut(d)
			p.take(d, now, cost)
			if l != p {
				l.take(d, now, cost)
			}
			e.let(g, &l.seat.visit, j, d, now)
			l.seat.granted++
			k.serve(l, cost)
		}
		k.settle(l, d, now)
	}
	e.endTour(t, g, now)
	if len(g.jobs) > before {
		g.need(p)
	}
}

// tour is what is kept of a visit to a group while it lasts.
type tour struct {
	group          *group
	shares         *shares
	called         []*line // the members that were chosen
	away           []*line // those that somebody is changing, out of their place
	aside          []*line // those whose shares are used up, out of their place
	roused, chosen int
	lanes          moved
}

// choose returns the member whose turn it is when the parent's next departure is at d, with the
// lane whose turn it is there, and when it departs; nil if there is none. What a visit to the member
// begins with is done when it is first chosen.
func (t *tour) choose(d, now leaky.Instant) (*line, *lane, leaky.Instant) {
	k := t.group
	for {
		t.rouse(d)
		if k.ready.len() == 0 && t.roused < rouseMax && k.resting.len() > 0 && k.resting.top().departs <= now.Add(queue.Horizon) {
			d = k.resting.top().departs
			t.rouse(d)
		}
		if k.ready.len() == 0 || t.chosen == chooseMax {
			return nil, nil, 0
		}
		l := k.ready.top()
		if ln := t.call(l, d, now); ln != nil {
			return l, ln, d
		}
		t.chosen++
	}
}

// rouse makes members ready that rest until d at most.
func (t *tour) rouse(d leaky.Instant) {
	for k := t.group; t.roused < rouseMax && k.resting.len() > 0 && k.resting.top().departs <= d; t.roused++ {
		k.rouse(k.resting.top())
	}
}

// call returns the lane of a ready member whose turn it is at d; nil if it cannot go, and is not
// ready any more.
func (t *tour) call(l *line, d, now leaky.Instant) *lane {
	if l.busy != nil {
		l.seat.leave()
		t.away = append(t.away, l)
		return nil
	}
	if t.shares.spent(l) {
		l.seat.leave()
		t.aside = append(t.aside, l)
		return nil
	}
	if !l.seat.called {
		l.mend(now)
		l.seat.called, l.seat.visit = true, l.begin(&t.lanes)
		t.called = append(t.called, l)
	}
	if at := l.own(now); at > d {
		t.group.rest(l, at)
		return nil
	}
	if !l.crowded() {
		if ln := l.choose(&l.seat.visit, d, now); ln != nil {
			return ln
		}
	}
	l.seat.leave()
	return nil
}

// endTour finds anew the members that were chosen and are in no place.
func (e *Engine) endTour(t *tour, g *grant, now leaky.Instant) {
	for _, l := range t.aside { // with the turn that it had
		l.seat.in, l.seat.aside = &t.group.ready, true
		t.group.ready.push(l)
	}
	for _, l := range t.called {
		g.close(l, l.seat.granted, now)
		l.seat.called, l.seat.granted = false, 0
		if at := l.own(now); l.seat.in == nil && l.awake() && l.able(at) {
			t.group.rest(l, at)
		}
		e.armRipening(l)
	}
	for _, l := range t.away { // whoever is changing it arms it, if need be
		t.group.rouse(l)
	}
}

// miss counts the departures that a queue could have had since.
func (g *grant) miss(l *line, since, now leaky.Instant) {
	n := l.missed(since, now)
	if n == 0 || l.heard.opened != 0 && !l.heads() { // what is down cannot be sent to
		return
	}
	if g.lost == nil {
		g.lost = map[string]int64{}
	}
	g.lost[l.spec.Name] += n
	l.loose.lost += n
}

// missed is how many departures the queue could have had since it became due.
func (l *line) missed(since, now leaky.Instant) int64 {
	n, d := l.slowest().Fraction()
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

// let hands the job at the head of its lane to the client.
func (e *Engine) let(g *grant, v *visit, j *job, departs, now leaky.Instant) {
	l := j.lane.line
	l.desert(j)
	g.bytes += int(j.size)
	g.use(l)
	g.jobs = append(g.jobs, e.lease(j, g.drainer, departs))
	if l.spec.Lends() {
		e.lend(g, j)
	}
	l.granted(v, j.lane, departs, now, int64(j.cost))
	g.full = len(g.jobs) == g.most
}

// close ends a visit to a queue that was granted n departures.
func (g *grant) close(l *line, n int, now leaky.Instant) {
	if n == 0 {
		return
	}
	l.outflow.add(now, int64(n))
	if !l.heads() {
		g.need(l)
	}
}

// need notes the ceilings that a grant needs.
func (g *grant) need(l *line) {
	if !l.spec.Rate.Unlimited() || len(l.limits) > 0 {
		g.needs = append(g.needs, need{l, l.needed(), l.pacer, l.changed, l.spec.Limits})
	}
}

// lease hands a job to a client.
func (e *Engine) lease(j *job, drainer string, departs leaky.Instant) granted {
	e.fences++
	l, f := j.lane.line, j.inFlight()
	f.fence = fence{e.epoch, e.fences}
	f.due, f.deadline = departs, departs.Add(l.spec.Lease.D())
	f.drainer = drainer
	l.lastFence = e.fences
	if l.kin != nil {
		l.kin.lastFence = e.fences
	}
	e.move(j, queue.Leased)
	e.leases.push(f)
	return granted{job: j, fence: f.fence, departs: departs, attempt: f.attempts + 1}
}
