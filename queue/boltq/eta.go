package boltq

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// outlook is what decides when a job departs that waits, or would.
type outlook struct {
	lane    *lane
	place   int64 // how many wait before it in its lane
	others  int64 // in how many other lanes jobs wait
	waiting int64 // all that wait, itself left out
	gap     int64 // its turn less that of the first that waits, in a plain queue
	kin     kin
	risk
}

// kin is what waits in the other queues of the group, and in all of them.
type kin struct {
	others int64 // in how many others jobs wait
	around int64 // all that wait, itself left out
}

// risk is what else the outlook of a job depends on, as it is when the job is judged:
// of those that come in together, one does not know of those behind it.
type risk struct {
	maxCost int64
	plain   bool
	dearest int64 // the greatest cost in the group, if there is one
}

func (l *line) risk(cost int64, odd bool) risk {
	r := risk{maxCost: max(l.maxCost, cost), plain: l.plain && !odd}
	if l.kin != nil {
		r.dearest = max(l.kin.of.dearestOfAll(), cost)
	}
	return r
}

// ahead is about how much is before a job that has so many before it.
func (r risk) ahead(before, gap int64) int64 {
	switch {
	case r.maxCost == 1:
		return before
	case r.plain:
		return max(0, min(gap, before*r.maxCost))
	}
	return before
}

// foresee is when a job departs, if nothing unforeseen comes between.
func (l *line) foresee(o outlook, now leaky.Instant) leaky.Instant { return l.judge(o, now).at }

// verdict is when a job departs, and what decides that.
type verdict struct {
	at    leaky.Instant
	by    queue.Cause
	of    *line  // whose pace or quota it is
	quota *limit // of ByQuota
}

// judge is foresee, and what decides it.
func (l *line) judge(o outlook, now leaky.Instant) verdict {
	ahead := o.ahead(min(o.waiting, o.place*(o.others+1)+o.others), o.gap)
	goes, _ := l.goes(now)
	v := l.alone(goes, ahead)
	own := o.lane.stops(now)
	if b, p, limited := o.lane.paced(now, now); limited {
		if own != 0 {
			b = p.Rise(b, own)
		}
		own = p.ETA(b, max(goes, own), o.place)
	}
	if own > v.at {
		v = verdict{at: own, by: queue.ByLaneRate, of: l}
	}
	if t := l.together(o.kin, o.risk, ahead, 0, goes); t.at > v.at {
		return t
	}
	return v
}

// alone is by the queue's own paces; the parent of a group has none.
func (l *line) alone(now leaky.Instant, ahead int64) verdict {
	if l.heads() {
		return verdict{at: now, by: queue.ByRate, of: l}
	}
	return l.by(queue.ByRate, now, ahead)
}

// by is by the paces of l, whose rate is such a cause.
func (l *line) by(cause queue.Cause, now leaky.Instant, ahead int64) verdict {
	at, quota := l.eta(now, ahead)
	if quota != nil {
		cause = queue.ByQuota
	}
	return verdict{at, cause, l, quota}
}

// together is by the group's paces, for a job that has so much ahead in its queue, of
// which so much is deferred: the members take turns.
func (l *line) together(k kin, r risk, ahead, deferred int64, now leaky.Instant) verdict {
	if l.kin == nil {
		return verdict{at: now}
	}
	return l.kin.of.by(queue.ByParent, now, min(ahead*(k.others+1)+k.others, k.around*max(1, r.dearest)+deferred))
}

// kinship is what waits around a job, waiting in l or not.
func (l *line) kinship(waits bool) (k kin) {
	if g := l.kin; g != nil {
		k = kin{g.peopled, g.waiting}
		if l.count[queue.Waiting] > 0 {
			k.others--
		}
		if waits {
			k.around--
		}
	}
	return k
}

// kinshipComing is what waits around a job that is not in the queue, with those on their way.
func (l *line) kinshipComing() (k kin) {
	if g := l.kin; g != nil {
		k = kin{g.awaited, g.waiting + g.coming}
		if l.count[queue.Waiting]+l.coming.waiting > 0 {
			k.others--
		}
	}
	return k
}

// outlook is that of a job that is in the queue.
func (l *line) outlook(j *job, r risk) outlook {
	o := outlook{lane: j.lane, place: int64(j.lane.fifo.rank(j)), others: int64(l.peopled), waiting: l.count[queue.Waiting], gap: l.gap(j.turn), kin: l.kinship(j.state == queue.Waiting), risk: r}
	if j.lane.fifo.len() > 0 {
		o.others--
	}
	if j.state == queue.Waiting {
		o.waiting--
	}
	return o
}

// prospect is the outlook of a job that is not in the queue, behind those on their way.
func (l *line) prospect(ln *lane, turn, cost int64, priority int, odd bool) outlook {
	c := &l.coming
	o := outlook{
		lane: ln, place: int64(ln.fifo.search(turn)) + ln.before(priority), others: int64(l.peopled + c.lanes),
		waiting: l.count[queue.Waiting] + c.waiting, gap: l.gap(turn), kin: l.kinshipComing(), risk: l.risk(cost, odd),
	}
	if !ln.unvisited() {
		o.others--
	}
	return o
}

// gap is how far a turn is behind the first that waits, or is about to, in a plain queue.
func (l *line) gap(turn int64) int64 {
	if l.bare.fifo.len() == 0 {
		return l.coming.cost
	}
	return turn - l.bare.fifo.front().turn
}

// exact reports whether nothing but the pace decides when a job departs.
func (l *line) exact(r risk, now leaky.Instant) bool {
	return r.plain && l.kin == nil && len(l.limits) == 0 && l.count[queue.Scheduled] == 0 && l.count[queue.Leased] == 0 && l.count[queue.Held] == 0 && !l.pause.holds(now) && l.heard.stop <= now && l.heard.opened == 0 && l.spec.MaxInFlight == 0 && !l.spec.Ordered
}

// expected is when a job that waits or is scheduled is expected to depart.
func (l *line) expected(j *job, r risk, now leaky.Instant) queue.ETA {
	at := l.foresee(l.outlook(j, r), now)
	if j.state == queue.Scheduled {
		return queue.ETA{At: max(at, j.flight.due).Time()}
	}
	return queue.ETA{At: at.Time(), Exact: l.exact(r, now)}
}

// etaAside is when a job is expected that is behind all that wait, and behind jobs of so
// much cost on the overflow.
func (l *line) etaAside(waiting, gap, behind int64, k kin, r risk, now leaky.Instant) leaky.Instant {
	ahead := r.ahead(waiting, gap) + behind
	goes, _ := l.goes(now)
	return max(l.alone(goes, ahead).at, l.together(k, r, ahead, behind, goes).at)
}
