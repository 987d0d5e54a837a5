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
	risk
}

// risk is what else the outlook of a job depends on, as it is when the job is judged:
// of those that come in together, one does not know of those behind it.
type risk struct {
	maxCost int64
	plain   bool
}

func (l *line) risk(cost int64, odd bool) risk { return risk{max(l.maxCost, cost), l.plain && !odd} }

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
func (l *line) foresee(o outlook, now leaky.Instant) leaky.Instant {
	at, _ := l.judge(o, now)
	return at
}

// judge is foresee, and whose rate decides it.
func (l *line) judge(o outlook, now leaky.Instant) (leaky.Instant, queue.Cause) {
	before := min(o.waiting, o.place*(o.others+1)+o.others)
	at := l.pacer.ETA(l.bucket, now, o.ahead(before, o.gap))
	if b, p, limited := o.lane.paced(now, now); limited {
		if own := p.ETA(b, now, o.place); own > at {
			return own, queue.ByLaneRate
		}
	}
	return at, queue.ByRate
}

// outlook is that of a job that is in the queue.
func (l *line) outlook(j *job, r risk) outlook {
	o := outlook{lane: j.lane, place: int64(j.lane.fifo.rank(j)), others: int64(l.peopled), waiting: l.count[queue.Waiting], gap: l.gap(j.turn), risk: r}
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
		waiting: l.count[queue.Waiting] + c.waiting, gap: l.gap(turn), risk: l.risk(cost, odd),
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
func (l *line) exact(r risk) bool {
	return r.plain && l.count[queue.Scheduled] == 0 && l.count[queue.Leased] == 0 && !l.paused && l.spec.MaxInFlight == 0 && !l.spec.Ordered
}

// eta is when a job that waits or is scheduled is expected to depart.
func (l *line) eta(j *job, r risk, now leaky.Instant) queue.ETA {
	at := l.foresee(l.outlook(j, r), now)
	if j.state == queue.Scheduled {
		return queue.ETA{At: max(at, j.flight.due).Time()}
	}
	return queue.ETA{At: at.Time(), Exact: l.exact(r)}
}

// etaAside is when a job is expected that is behind all that wait, and behind jobs of so
// much cost on the overflow.
func (l *line) etaAside(waiting, gap, behind int64, r risk, now leaky.Instant) leaky.Instant {
	return l.pacer.ETA(l.bucket, now, r.ahead(waiting, gap)+behind)
}
