package boltq

import (
	"maps"
	"math"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

const (
	readyLanesMax  = 100 // lanes that rested and become ready, a visit to a queue or a group
	judgeLanesMax  = 100 // ready lanes that turn out to be none, a visit
	recallLanesMax = 100 // lanes that become ready because of a changed rule, the same
)

const never = leaky.Instant(math.MaxInt64)

// laneTurns says whose turn it is among the lanes of a queue in which jobs wait: self-clocked
// fair queueing. While only the lane without a key has jobs, it stands in none of these.
type laneTurns struct {
	served       int64        // the tag of the lane that was served last
	ready        heap[*lane]  // by tag
	resting      *heap[*lane] // by until when; busy ones never
	changed      *heap[*lane] // that rested or were busy when a rule changed
	changedAgain bool         // a rule changed while some of those were still there
}

func newLaneTurns() *laneTurns {
	resting, changed := newLanes(byRest), newLanes(byRest)
	return &laneTurns{ready: newLanes(byTag), resting: &resting, changed: &changed}
}

// lanesTakeTurns reports whether lanes take turns.
func (q *queueState) lanesTakeTurns() bool {
	return q.spec.Ordered || q.lanesWaiting > 1 || q.lanesWaiting == 1 && q.defaultLane.waiting.len() == 0
}

// pushWaiting puts a job into its lane to wait, and reports whether none waited there. Then the
// lane is to be placed.
func (q *queueState) pushWaiting(j *job) (first bool) {
	ln := j.lane
	first = ln.waiting.len() == 0
	ln.waiting.insert(j)
	if first {
		q.lanesWaiting++
		if ln.incomingTotal() > 0 {
			q.incoming.lanes--
		}
	}
	return first
}

// placeLane finds the place of a lane that a job has come to. The lane without a key finds
// its own in a visit, but in an ordered queue.
func (q *queueState) placeLane(ln *lane, first bool, now leaky.Instant) {
	if !first {
		q.unblock(ln, now)
	} else if ln.keyed() || q.spec.Ordered {
		q.takeTurns().placeLane(ln)
	}
}

// removeWaiting takes a job that waits out of its lane.
func (q *queueState) removeWaiting(j *job) {
	j.lane.waiting.remove(j)
	if j.lane.waiting.len() == 0 {
		q.lanesWaiting--
		j.lane.leave()
		if j.lane.incomingTotal() > 0 {
			q.incoming.lanes++
		}
	}
}

// placeLane finds the place of a lane that has none: what rests is found out in a visit.
func (t *laneTurns) placeLane(ln *lane) {
	if ln.busy() {
		t.rest(ln, never)
	} else {
		t.makeReady(ln)
	}
}

// makeReady makes a lane ready. It is not ahead of others for having waited.
func (t *laneTurns) makeReady(ln *lane) {
	ln.leave()
	ln.tag = t.served + int64(ln.waiting.front().cost)
	ln.enter(&t.ready)
}

func (t *laneTurns) rest(ln *lane, until leaky.Instant) {
	ln.leave()
	ln.restsUntil = until
	ln.enter(t.resting)
}

// unblock finds the place of a lane of which a job is no longer in flight, and reports
// whether it was busy and is not any more.
func (q *queueState) unblock(ln *lane, now leaky.Instant) bool {
	t := q.laneTurns
	if t == nil || ln.heap != t.resting || ln.restsUntil != never || ln.busy() {
		return false
	}
	if at := ln.opens(now, now); at > now {
		t.rest(ln, at)
	} else {
		t.makeReady(ln)
	}
	return true
}

// rulesChanged makes a changed rule hold for lanes that rest or are busy: they become ready in
// the next visits, which judge them. While there are some of an earlier change the others
// wait for those: there may be a million, and here nothing goes through them.
func (t *laneTurns) rulesChanged() {
	t.changedAgain = t.changed.len() > 0
	if !t.changedAgain {
		t.changed, t.resting = t.resting, t.changed
	}
}

// recall makes lanes ready for the sake of a changed rule, at the beginning of a visit.
func (t *laneTurns) recall(n *laneBudget) {
	for ; t.changed.len() > 0 && n.recalled < recallLanesMax; n.recalled++ {
		t.makeReady(t.changed.top())
	}
	if t.changedAgain && t.changed.len() == 0 {
		t.rulesChanged()
	}
}

// recalling reports whether lanes are still to become ready because of a changed rule.
func (t *laneTurns) recalling() bool { return t.changedAgain || t.changed.len() > 0 }

// sameLanes reports whether two specs have the same rules for lanes.
func sameLanes(a, b *queue.Spec) bool {
	return a.Ordered == b.Ordered && a.Lanes.LaneRule == b.Lanes.LaneRule && maps.Equal(a.Lanes.Overrides, b.Lanes.Overrides)
}

// atMaxInFlight reports whether as many jobs are leased as may be.
func (q *queueState) atMaxInFlight() bool {
	return q.spec.MaxInFlight > 0 && q.counts[queue.Leased] >= q.spec.MaxInFlight
}

// canDepart reports whether something could depart at next, by the queue's own pace.
func (q *queueState) canDepart(next leaky.Instant) bool {
	t := q.laneTurns
	switch {
	case q.lanesWaiting == 0 || q.atMaxInFlight():
		return false
	case !q.allLanesBlocked():
		return true
	}
	return t.resting.len() > 0 && t.resting.top().restsUntil <= next
}

// allLanesBlocked reports whether all lanes in which jobs wait rest or are busy.
func (q *queueState) allLanesBlocked() bool {
	t := q.laneTurns
	return t != nil && q.lanesTakeTurns() && t.ready.len() == 0 && !t.recalling() && (q.defaultLane.waiting.len() == 0 || q.defaultLane.heap != nil)
}

// heldUpByLanes reports whether the lane that all wait for rested for longer than the queue's own
// pace held it up.
func (q *queueState) heldUpByLanes() bool {
	if !q.allLanesBlocked() || q.laneTurns.resting.len() == 0 {
		return false
	}
	at := q.laneTurns.resting.top().restsUntil
	return at != never && q.memberOpens(at-1) < at
}

// lanesResumeAt returns when the first lane stops resting, if that is what the queue waits for.
func (q *queueState) lanesResumeAt() (at leaky.Instant, any bool) {
	if t := q.laneTurns; t != nil && !q.onAgenda() && !q.atMaxInFlight() && t.resting.len() > 0 {
		at = t.resting.top().restsUntil
		return at, at != never
	}
	return 0, false
}

// queueVisit is what is kept of a visit to a queue while it lasts.
type queueVisit struct {
	takeTurns bool // lanes take turns in it
	judged    int
	*laneBudget
}

// laneBudget counts lanes that became ready. All members of a group share it, or a visit to a
// thousand children would look at a hundred lanes of each.
type laneBudget struct{ readied, recalled int }

// beginVisit begins a visit.
func (q *queueState) beginVisit(n *laneBudget) queueVisit {
	v := queueVisit{takeTurns: q.lanesTakeTurns(), laneBudget: n}
	if !v.takeTurns && q.laneTurns == nil {
		return v
	}
	t := q.takeTurns()
	t.recall(n)
	switch bare := &q.defaultLane; {
	case !v.takeTurns:
		bare.leave()
	case bare.waiting.len() > 0 && bare.heap == nil:
		t.placeLane(bare)
	}
	return v
}

// chooseLane returns the lane whose turn it is when the queue's next departure is at d; nil
// if there is none.
func (q *queueState) chooseLane(v *queueVisit, d, now leaky.Instant) *lane {
	if !v.takeTurns {
		if q.defaultLane.waiting.len() == 0 {
			return nil
		}
		return &q.defaultLane
	}
	t := q.laneTurns
	for ; v.readied < readyLanesMax && t.resting.len() > 0 && t.resting.top().restsUntil <= d; v.readied++ {
		t.makeReady(t.resting.top())
	}
	for ; t.ready.len() > 0 && v.judged < judgeLanesMax; v.judged++ {
		ln := t.ready.top()
		if ln.busy() {
			t.rest(ln, never)
		} else if at := ln.judge(d, now); at > d {
			t.rest(ln, at)
		} else {
			return ln
		}
	}
	return nil
}

// laneGranted notes that a job of a lane departs at d, and finds the lane's place. The job
// stands no more in its FIFO, but counts as in flight.
func (q *queueState) laneGranted(v *queueVisit, ln *lane, d, now leaky.Instant, cost int64) {
	if !v.takeTurns {
		return
	}
	t := q.laneTurns
	ln.take(d, now, cost)
	t.served = ln.tag
	ln.tag += cost
	if ln.waiting.len() == 0 {
		return
	}
	if ln.busy() {
		t.rest(ln, never)
	} else if at := ln.opens(d, now); at > d {
		t.rest(ln, at)
	} else {
		t.ready.fix(ln.heapIndex)
	}
}

// takeTurns returns the queue's turns, which a queue without lanes has none of.
func (q *queueState) takeTurns() *laneTurns {
	if q.laneTurns == nil {
		q.laneTurns = newLaneTurns()
	}
	return q.laneTurns
}

// firstLane returns the lane that is next, as far as can be told without a visit; nil if no
// job waits.
func (q *queueState) firstLane() *lane {
	t := q.laneTurns
	switch {
	case q.defaultLane.waiting.len() > 0:
		return &q.defaultLane
	case q.lanesWaiting == 0:
		return nil
	case t.ready.len() > 0:
		return t.ready.top()
	case t.changed.len() == 0:
		return t.resting.top()
	case t.resting.len() == 0 || byRest(t.changed.top(), t.resting.top()):
		return t.changed.top()
	}
	return t.resting.top()
}
