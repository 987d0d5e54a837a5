package machine

import (
	"maps"
	"math"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

const (
	readyLanesMax  = 100 // resting lanes made ready per visit to a queue or group
	judgeLanesMax  = 100 // ready lanes per visit that turn out not to be ready
	recallLanesMax = 100 // lanes made ready per visit because their rules changed
)

const never = leaky.Instant(math.MaxInt64)

// laneTurns decides which lane with waiting jobs is next, by self-clocked fair queueing. It is unused while only the
// default lane has jobs.
type laneTurns struct {
	served       int64        // the greatest tag of a lane that was served
	ready        heap[*lane]  // by tag
	resting      *heap[*lane] // by until, which is never for busy lanes
	changed      *heap[*lane] // lanes that rested or were busy when the rules changed
	changedAgain bool         // the rules changed again before changed was empty
	weights      laneWeights
	hours        map[queue.Hours]*openHours // of lanes; made when they are first needed
}

func newLaneTurns() *laneTurns {
	resting, changed := newLanes(byUntil), newLanes(byUntil)
	return &laneTurns{ready: newLanes(byTag), resting: &resting, changed: &changed}
}

// lanesTakeTurns reports whether more than the default lane decides what departs.
func (q *queueState) lanesTakeTurns() bool {
	return q.spec.Ordered || q.lanesWaiting > 1 || q.lanesWaiting == 1 && q.defaultLane.noneWaits()
}

// pushWaiting puts a job into its lane, and reports whether the lane had no waiting jobs. If so, the caller places the
// lane.
func (q *queueState) pushWaiting(j *job) (first bool) {
	ln := j.lane
	first = ln.waiting.len() == 0
	ln.waiting.insert(j)
	if first {
		q.countWaitingLane(ln, 1)
		if ln.incomingTotal() > 0 {
			q.countIncomingLane(ln, -1)
		}
	}
	return first
}

// placeLane finds the place of a lane to which a job was added. Except in ordered queues, only a visit places the
// default lane.
func (q *queueState) placeLane(ln *lane, first bool, now leaky.Instant) {
	if !first {
		q.unblock(ln, now)
	} else if ln.keyed() || q.spec.Ordered {
		q.takeTurns().placeLane(ln)
	}
}

func (q *queueState) removeWaiting(j *job) {
	j.lane.waiting.remove(j)
	if j.lane.waiting.len() == 0 {
		q.countWaitingLane(j.lane, -1)
		j.lane.leave()
		if j.lane.incomingTotal() > 0 {
			q.countIncomingLane(j.lane, 1)
		}
	}
}

// placeLane places a lane that has no place. A visit finds out whether its rate lets it go.
func (t *laneTurns) placeLane(ln *lane) {
	if ln.busy() {
		t.rest(ln, never)
	} else {
		t.makeReady(ln, t.joins(ln))
	}
}

func (t *laneTurns) makeReady(ln *lane, tag int64) {
	ln.leave()
	ln.tag = tag
	ln.enter(&t.ready)
}

// joins returns the tag of a lane that had no place. It has saved up nothing.
func (t *laneTurns) joins(ln *lane) int64 {
	return t.served + tagLength(int64(ln.waiting.front().cost), ln.share())
}

// resumes returns the tag of a lane that rested. While it waits for its own rate it loses no turn of the latest round.
func (t *laneTurns) resumes(ln *lane, now leaky.Instant) int64 {
	if tag := ln.keptTag(now); tag > 0 {
		return max(tag, t.served-tagUnit)
	}
	return t.joins(ln)
}

func (t *laneTurns) rest(ln *lane, until leaky.Instant) {
	ln.leave()
	ln.until = until
	ln.enter(t.resting)
}

// unblock places a lane after one of its jobs left flight, and reports whether the lane is no longer busy.
func (q *queueState) unblock(ln *lane, now leaky.Instant) bool {
	t := q.laneTurns
	if t == nil || ln.heap != t.resting || ln.until != never || ln.busy() {
		return false
	}
	if at := ln.opens(now, now); at > now {
		t.rest(ln, at)
	} else {
		t.makeReady(ln, t.resumes(ln, now))
	}
	return true
}

// rulesChanged applies new rules to lanes that rest or are busy: the next visits make them ready and judge them again.
// There may be a million, so nothing walks through all of them here. While lanes of an earlier change are left, later
// changes wait for them.
func (t *laneTurns) rulesChanged() {
	t.changedAgain = t.changed.len() > 0
	if !t.changedAgain {
		t.changed, t.resting = t.resting, t.changed
	}
}

// recall makes some lanes ready again after a change of rules, at the start of a visit.
func (t *laneTurns) recall(n *laneBudget, now leaky.Instant) {
	for ; t.changed.len() > 0 && n.recalled < recallLanesMax; n.recalled++ {
		ln := t.changed.top()
		t.makeReady(ln, t.resumes(ln, now))
	}
	if t.changedAgain && t.changed.len() == 0 {
		t.rulesChanged()
	}
}

// recalling reports whether lanes are still to be made ready after a change of rules.
func (t *laneTurns) recalling() bool { return t.changedAgain || t.changed.len() > 0 }

func sameLanes(a, b *queue.Spec) bool {
	return a.Ordered == b.Ordered && a.Lanes.LaneRule == b.Lanes.LaneRule &&
		maps.Equal(a.Lanes.Overrides, b.Lanes.Overrides)
}

func (q *queueState) atMaxInFlight() bool {
	return q.spec.MaxInFlight > 0 && q.counts[queue.Leased] >= q.spec.MaxInFlight
}

// canDepart reports whether the lanes let a job depart at next, when the queue's own pace does.
func (q *queueState) canDepart(next leaky.Instant) bool {
	t := q.laneTurns
	switch {
	case q.lanesWaiting == 0 || q.atMaxInFlight():
		return false
	case !q.allLanesBlocked():
		return true
	}
	return t.resting.len() > 0 && t.resting.top().until <= next
}

// allLanesBlocked reports whether every lane with waiting jobs rests or is busy.
func (q *queueState) allLanesBlocked() bool {
	t := q.laneTurns
	return t != nil && q.lanesTakeTurns() && t.ready.len() == 0 && !t.recalling() &&
		(q.defaultLane.noneWaits() || q.defaultLane.heap != nil)
}

// heldUpByLanes reports whether the lanes hold the queue up for longer than its own pace does.
func (q *queueState) heldUpByLanes(now leaky.Instant) bool {
	if !q.allLanesBlocked() || q.laneTurns.resting.len() == 0 {
		return false
	}
	at := q.laneTurns.resting.top().until
	return at != never && q.memberOpened(at-1, now) < at
}

// lanesResumeAt returns when the first lane stops resting, if the queue waits for that.
func (q *queueState) lanesResumeAt() (at leaky.Instant, any bool) {
	if t := q.laneTurns; t != nil && !q.onAgenda() && !q.atMaxInFlight() && t.resting.len() > 0 {
		at = t.resting.top().until
		return at, at != never
	}
	return 0, false
}

type queueVisit struct {
	takeTurns bool // fixed when the visit begins
	judged    int
	*laneBudget
}

// laneBudget limits how many lanes a visit makes ready. All members of a group share it. Otherwise a visit to a
// thousand children would look at a hundred lanes of each.
type laneBudget struct {
	readied, recalled int
	reigns
}

func (q *queueState) beginVisit(n *laneBudget, now leaky.Instant) queueVisit {
	v := queueVisit{takeTurns: q.lanesTakeTurns(), laneBudget: n}
	if !v.takeTurns && q.laneTurns == nil {
		return v
	}
	t := q.takeTurns()
	t.recall(n, now)
	switch bare := q.defaultLane; {
	case bare == nil:
	case !v.takeTurns:
		bare.leave()
	case bare.waiting.len() > 0 && bare.heap == nil:
		t.placeLane(bare)
	}
	return v
}

// chooseLane returns the lane whose turn it is when the queue's next departure is at d, or nil.
func (q *queueState) chooseLane(v *queueVisit, d, now leaky.Instant) *lane {
	if !v.takeTurns {
		if q.defaultLane.noneWaits() {
			return nil
		}
		return q.defaultLane
	}
	t := q.laneTurns
	for ; v.readied < readyLanesMax && t.resting.len() > 0 && t.resting.top().until <= d; v.readied++ {
		ln := t.resting.top()
		t.makeReady(ln, t.resumes(ln, now))
	}
	for ; t.ready.len() > 0 && v.judged < judgeLanesMax; v.judged++ {
		ln := t.ready.top()
		if ln.busy() {
			t.rest(ln, never)
		} else if at := ln.hours().next(v.apartInLane(ln, ln.judge(d, now), now), now); at > d {
			t.rest(ln, at)
		} else if !ln.hasCredit(v.reigns, d) {
			t.rest(ln, ln.opens(d, now))
		} else {
			return ln
		}
	}
	return nil
}

// laneGranted notes that a job of a lane departs at d, and finds the lane's new place. The job has left the wait list
// and counts as in flight.
func (q *queueState) laneGranted(v *queueVisit, ln *lane, d, now leaky.Instant, of bill) {
	if !v.takeTurns {
		return
	}
	t := q.laneTurns
	if ln.pace != nil {
		v.shiftOne(ln.pace.pacer, &ln.pace.bucket)
	}
	t.served = max(t.served, ln.tag)
	ln.tag += tagLength(of.cost, ln.share())
	ln.take(d, now, of)
	if ln.waiting.len() == 0 {
		return
	}
	if ln.busy() {
		t.rest(ln, never)
	} else if at := ln.opens(d, now); at > d {
		t.rest(ln, at)
	} else {
		t.ready.fix(int(ln.heapIndex))
	}
}

// takeTurns returns the queue's turns, created on first use.
func (q *queueState) takeTurns() *laneTurns {
	if q.laneTurns == nil {
		q.laneTurns = newLaneTurns()
	}
	return q.laneTurns
}

// firstLane returns the lane that is probably next, found without a visit, or nil if no job waits.
func (q *queueState) firstLane() *lane {
	t := q.laneTurns
	switch {
	case !q.defaultLane.noneWaits():
		return q.defaultLane
	case q.lanesWaiting == 0:
		return nil
	case t.ready.len() > 0:
		return t.ready.top()
	case t.changed.len() == 0:
		return t.resting.top()
	case t.resting.len() == 0 || t.resting.before(&t.changed.items[0], &t.resting.items[0]):
		return t.changed.top()
	}
	return t.resting.top()
}
