package machine

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// tagUnit is how far a job of cost 1 moves the tag of a lane or member of weight 1. All numbers up to 16 divide it, so
// that shares are exact; other weights are off by at most one in 1,400.
const tagUnit = 720_720

// tagLength returns how far a job moves a tag.
func tagLength(cost, weight int64) int64 { return (cost*tagUnit + weight/2) / weight }

// share returns the weight of the lane.
func (ln *lane) share() int64 {
	if !ln.keyed() {
		return 1
	}
	rule := ln.rule()
	return rule.Share()
}

// laneWeights are the weights of lanes: by how much the sum differs from that of as many lanes without an override.
type laneWeights struct {
	waiting int64 // of lanes with a key and waiting jobs
	coming  int64 // of other lanes with a key and incoming jobs
}

// extraWeight returns by how much the lane's weight differs from that of a lane with a key and no override.
func (ln *lane) extraWeight() int64 { return ln.share() - ln.queue.spec.Lanes.Share() }

// countWaitingLane counts a lane that begins to have waiting jobs; by is -1 if it has no more.
func (q *queueState) countWaitingLane(ln *lane, by int) {
	q.lanesWaiting += int32(by)
	if extra := ln.extraWeight(); extra != 0 && ln.keyed() {
		q.takeTurns().weights.waiting += int64(by) * extra
	}
}

// countIncomingLane does the same for a lane with incoming jobs and no waiting ones.
func (q *queueState) countIncomingLane(ln *lane, by int) {
	q.incoming.lanes += by
	if extra := ln.extraWeight(); extra != 0 && ln.keyed() {
		q.takeTurns().weights.coming += int64(by) * extra
	}
}

// laneWeights returns the sum of the weights of the lanes with waiting jobs, and that of lanes with incoming jobs.
func (q *queueState) laneWeights() (waiting, coming int64) {
	each, bare := q.spec.Lanes.Share(), q.defaultLane
	waiting, coming = int64(q.lanesWaiting)*each, int64(q.incoming.lanes)*each
	if t := q.laneTurns; t != nil {
		waiting, coming = waiting+t.weights.waiting, coming+t.weights.coming
	}
	switch {
	case !bare.noneWaits():
		waiting += bare.extraWeight()
	case bare != nil && bare.incomingTotal() > 0:
		coming += bare.extraWeight()
	}
	return waiting, coming
}

// recountWeights counts the weights of lanes again after a change of the rules.
func (q *queueState) recountWeights() {
	var w laneWeights
	for key := range q.spec.Lanes.Overrides {
		switch ln := q.lanes[queue.DigestLane(key)]; {
		case ln == nil:
		case ln.waiting.len() > 0:
			w.waiting += ln.extraWeight()
		case ln.incomingTotal() > 0:
			w.coming += ln.extraWeight()
		}
	}
	if w != (laneWeights{}) || q.laneTurns != nil {
		q.takeTurns().weights = w
	}
}

// amongOthers returns how much departs before a job that has so much ahead of it in its lane or queue of that weight,
// while others with that sum of weights take turns with it.
func amongOthers(ahead, others, weight int64) int64 { return ahead + (ahead+1)*others/weight }

// reweigh changes the weight of a member, which q.count counted.
func (g *group) reweigh(q *queueState, weight int64) {
	if !q.isParent() {
		g.weights += weight - q.spec.Share()
	}
}

// credit returns how far behind served a member that was passed over may be, because no client came for its jobs. The
// member can catch up on so many jobs, whatever its weight.
func (g *group) credit(q *queueState, now leaky.Instant) int64 {
	return tagLength(g.queue.lostSlots(now.Add(-queue.Horizon/2), now), q.spec.Share())
}
