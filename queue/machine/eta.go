package machine

import (
	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// outlook is what decides when a job departs.
type outlook struct {
	lane      *lane
	place     int64 // how many jobs wait before it in its lane
	others    int64 // sum of the weights of other lanes with waiting jobs
	waiting   int64 // all other waiting jobs
	gap       int64 // its turn minus that of the first waiting job, in a plain queue
	groupLoad groupLoad
	costBounds
}

// groupLoad is what waits in the rest of the group.
type groupLoad struct {
	others  int64 // sum of the weights of other members with waiting jobs
	waiting int64 // all other waiting jobs of the group
}

// costBounds is what an estimate assumes about the costs of other jobs. It is set when a job is decided: a job must not
// know of those appended after it in the same call.
type costBounds struct {
	maxCost      int64
	plain        bool
	groupMaxCost int64 // 0 without a group
}

func (q *queueState) costBounds(cost int64, odd bool) costBounds {
	r := costBounds{maxCost: max(int64(q.maxCost), cost), plain: q.plain && !odd}
	if q.group != nil {
		r.groupMaxCost = max(q.group.queue.groupMaxCost(), cost)
	}
	return r
}

// ahead estimates the cost ahead of a job that has that many jobs before it.
func (bounds costBounds) ahead(before, gap int64) int64 {
	switch {
	case bounds.maxCost == 1:
		return before
	case bounds.plain:
		return max(0, min(gap, before*bounds.maxCost))
	}
	return before
}

func (q *queueState) departure(o outlook, now leaky.Instant) leaky.Instant {
	return q.judgeETA(o, now).at
}

// etaVerdict is when a job is expected to depart, and what decides that.
type etaVerdict struct {
	at    leaky.Instant
	by    cause.Cause
	queue *queueState // whose pace or quota decides
	limit *limit      // the quota or budget that decides, or nil; of the lane if by is LaneRate
}

// judgeETA returns when a job is expected to depart, and why then.
func (q *queueState) judgeETA(o outlook, now leaky.Instant) etaVerdict {
	ahead := o.ahead(min(o.waiting, amongOthers(o.place, o.others, o.lane.share())), o.gap)
	goes, _ := q.resumesAt(now)
	v := q.ownVerdict(goes, now, ahead)
	if own, l := o.lane.eta(goes, now, o.place); own > v.at {
		v = etaVerdict{at: own, by: cause.LaneRate, queue: q, limit: l}
	}
	if t := q.groupVerdict(o.groupLoad, o.costBounds, ahead, 0, goes, now); t.at > v.at {
		v = t
	}
	v.at = o.lane.commonHours(v.at, now)
	return v
}

// eta returns when a lane lets a job depart, not before goes, with that much cost ahead of it in the lane. Without a
// rate it returns the end of the lane's stop, or 0. by is the limit that decides, or nil.
func (ln *lane) eta(goes, now leaky.Instant, ahead int64) (at leaky.Instant, by *limit) {
	stop := ln.stopsUntil(now)
	p, limited := ln.pacing(now, now)
	if !limited {
		return stop, nil
	}
	if stop != 0 {
		p.bucket = p.pacer.Rise(p.bucket, stop)
	}
	p.paces.hours = ln.hours()
	return p.eta(ln.queue, max(goes, stop), now, ahead)
}

// ownVerdict is the verdict of the queue's own paces. A parent's own jobs are bound only by the group's paces.
func (q *queueState) ownVerdict(goes, now leaky.Instant, ahead int64) etaVerdict {
	if q.isParent() {
		return etaVerdict{at: goes, by: cause.Rate, queue: q}
	}
	return q.verdictBy(cause.Rate, goes, now, ahead)
}

// verdictBy is the verdict of q's paces; by is the cause to name if its rate decides.
func (q *queueState) verdictBy(by cause.Cause, goes, now leaky.Instant, ahead int64) etaVerdict {
	return q.verdictOf(q, by, goes, now, ahead)
}

// verdictOf is verdictBy for a job of another queue.
func (q *queueState) verdictOf(of *queueState, by cause.Cause, goes, now leaky.Instant, ahead int64) etaVerdict {
	at, l := q.eta(of, goes, now, ahead)
	if l != nil && l.HasQuota() {
		by = cause.Quota
	}
	return etaVerdict{at, by, q, l}
}

// groupVerdict is the verdict of the group's paces for a job with that much cost ahead in its queue, some of it
// deferred. Members take turns, so other members' jobs come in between.
func (q *queueState) groupVerdict(
	load groupLoad, bounds costBounds, ahead, deferred int64, goes, now leaky.Instant,
) etaVerdict {
	if q.group == nil {
		return etaVerdict{at: goes}
	}
	others := amongOthers(ahead, load.others, q.spec.Share())
	most := load.waiting*max(1, bounds.groupMaxCost) + deferred
	return q.group.queue.verdictOf(q, cause.Parent, goes, now, min(others, most))
}

// groupLoad returns what waits in the group around a job of q; waits says whether the job itself waits.
func (q *queueState) groupLoad(waits bool) (load groupLoad) {
	if g := q.group; g != nil {
		load = groupLoad{g.weightWaiting, g.waiting}
		if q.spec.Pull {
			load.waiting += q.counts[queue.Waiting]
		} else if q.counts[queue.Waiting] > 0 {
			load.others -= q.spec.Share()
		}
		if waits {
			load.waiting--
		}
	}
	return load
}

// groupLoadIncoming is groupLoad for a job that is not in the queue yet, incoming jobs included.
func (q *queueState) groupLoadIncoming() (load groupLoad) {
	if g := q.group; g != nil {
		load = groupLoad{g.weightIncoming, g.waiting + g.incoming}
		if q.spec.Pull {
			load.waiting += q.counts[queue.Waiting] + q.incoming.waiting
		} else if q.counts[queue.Waiting]+q.incoming.waiting > 0 {
			load.others -= q.spec.Share()
		}
	}
	return load
}

// outlookOf returns the outlook of a job in the queue.
func (q *queueState) outlookOf(j *job, bounds costBounds) outlook {
	others, _ := q.laneWeights()
	o := outlook{
		lane: j.lane, place: int64(j.lane.waiting.rank(j)), others: others,
		waiting: q.counts[queue.Waiting], gap: q.gap(j.turn), groupLoad: q.groupLoad(j.state == queue.Waiting),
		costBounds: bounds,
	}
	if j.lane.waiting.len() > 0 {
		o.others -= j.lane.share()
	}
	if j.state == queue.Waiting {
		o.waiting--
	}
	return o
}

// outlookOfNew returns the outlook of a job that is not in the queue yet, behind all incoming jobs.
func (q *queueState) outlookOfNew(ln *lane, turn, cost int64, priority int, odd bool) outlook {
	c := &q.incoming
	waiting, coming := q.laneWeights()
	o := outlook{
		lane: ln, place: int64(ln.waiting.search(turn)) + ln.incomingBefore(priority), others: waiting + coming,
		waiting: q.counts[queue.Waiting] + c.waiting, gap: q.gap(turn), groupLoad: q.groupLoadIncoming(),
		costBounds: q.costBounds(cost, odd),
	}
	if !ln.empty() {
		o.others -= ln.share()
	}
	return o
}

// gap returns how far a turn is behind the first waiting or incoming job, in a plain queue.
func (q *queueState) gap(turn int64) int64 {
	if q.defaultLane.noneWaits() {
		return q.incoming.cost
	}
	return turn - q.defaultLane.waiting.front().turn
}

// etaIsExact reports whether only the pace decides when a job departs, as long as a drainer asks for it. When workers
// ask is up to them.
func (q *queueState) etaIsExact(bounds costBounds, now leaky.Instant) bool {
	return bounds.plain && !q.spec.Pull && q.group == nil && len(q.limits) == 0 && q.hours == nil &&
		q.counts[queue.Scheduled] == 0 && q.counts[queue.Leased] == 0 && q.counts[queue.Held] == 0 &&
		!q.pause.active(q.env.wall(now)) && q.receiver.stop <= now && q.receiver.opened == 0 &&
		q.spec.MaxInFlight == 0 && !q.spec.Ordered && q.adapted == nil
}

// etaOf returns when a waiting or scheduled job is expected to depart.
func (q *queueState) etaOf(j *job, bounds costBounds, now leaky.Instant) queue.ETA {
	at := q.departure(q.outlookOf(j, bounds), now)
	if j.state == queue.Scheduled {
		return queue.ETA{At: max(at, q.env.engine(j.lease.due)).Time()}
	}
	return queue.ETA{At: at.Time(), Exact: q.etaIsExact(bounds, now)}
}

// etaDeferred returns the expected departure of a job behind all waiting jobs and behind deferred jobs; behind is the
// cost of these deferred jobs.
func (q *queueState) etaDeferred(
	waiting, gap, behind int64, load groupLoad, bounds costBounds, now leaky.Instant,
) leaky.Instant {
	ahead := bounds.ahead(waiting, gap) + behind
	goes, _ := q.resumesAt(now)
	at := max(q.ownVerdict(goes, now, ahead).at, q.groupVerdict(load, bounds, ahead, behind, goes, now).at)
	return q.inHours(at, now)
}

// etaOfNew returns when a new job is expected to depart; notBefore is 0 unless the job is scheduled.
func (q *queueState) etaOfNew(o outlook, notBefore, now leaky.Instant) queue.ETA {
	at := q.departure(o, now)
	if notBefore != 0 {
		return queue.ETA{At: max(at, q.env.engine(notBefore)).Time()}
	}
	return queue.ETA{At: at.Time(), Exact: q.incoming.scheduled() == 0 && q.etaIsExact(o.costBounds, now)}
}

// whyNotLeft returns why a waiting or scheduled job has not left yet.
func (q *queueState) whyNotLeft(j *job, now leaky.Instant) queue.Why {
	ln, flying := j.lane, int64(j.lane.inFlight)
	if ls := j.lease; ls != nil && j.state == queue.Scheduled {
		switch {
		case ls.due > q.env.wall(now) && (ls.attempts > 0 || len(ls.timeline) > 0):
			return queue.Why{By: cause.BackingOff, Until: ls.due.Time(), Reason: ls.reason}
		case ls.due > q.env.wall(now):
			return queue.Why{By: cause.Scheduled, Until: ls.due.Time()}
		case ls.inFlight: // the job does not wait for itself
			flying--
		}
	}
	most := ln.rule().MaxInFlight
	switch {
	case q.pause.active(q.env.wall(now)):
		p := q.pause.info(q.env.wall(now))
		return queue.Why{By: cause.Paused, Until: p.Until, Reason: p.Reason, Who: p.By, Note: p.Note}
	case q.paused(now):
		p := q.parent().pause.info(q.env.wall(now))
		return queue.Why{
			By: cause.Paused, Until: p.Until, Reason: p.Reason, Who: p.By, Note: p.Note, Queue: q.parent().name,
		}
	case q.receiver.opened != 0 || q.receiver.stop > now:
		return q.receiver.why(now)
	case q.hours.next(now, now) > now:
		return q.hours.why(cause.Hours, now)
	case q.parent() != nil && q.parent().hours.next(now, now) > now:
		w := q.parent().hours.why(cause.Hours, now)
		w.Queue = q.parent().name
		return w
	case ln.hours().next(now, now) > now:
		return ln.hours().why(cause.LaneHours, now)
	case q.spec.Ordered && flying > 0:
		return queue.Why{By: cause.Ordered}
	case most > 0 && flying >= most:
		return queue.Why{By: cause.LaneMaxInFlight}
	case ln.stopsUntil(now) > now:
		return queue.Why{By: cause.Throttled, Until: ln.stop.Time()}
	case q.atMaxInFlight():
		return queue.Why{By: cause.MaxInFlight}
	}
	return q.judgeETA(q.outlookOf(j, q.costBounds(int64(j.cost), false)), now).why(q, now)
}

func (r *receiverState) why(now leaky.Instant) queue.Why {
	w := queue.Why{By: cause.Throttled, Reason: r.reason}
	if r.opened != 0 || r.cause == queue.StopDown {
		w = queue.Why{By: cause.Down, Reason: r.lastFailure}
	} else if r.cause == queue.StopNoTarget {
		w.By = cause.NoTarget
	}
	if r.stop > now {
		w.Until = r.stop.Time()
	}
	return w
}

func (v etaVerdict) why(q *queueState, now leaky.Instant) queue.Why {
	if v.at <= now {
		return queue.Why{By: q.spec.Cause()}
	}
	w := queue.Why{By: v.by}
	if v.queue != q {
		w.Queue = v.queue.name
	}
	if l := v.limit; l != nil {
		w.Reason = l.reason(now)
		if at := l.opens(now); at > now {
			w.Until = at.Time()
		}
	}
	return w
}
