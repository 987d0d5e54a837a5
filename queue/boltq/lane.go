package boltq

import (
	"bytes"
	"strings"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// lane is the jobs of a queue that have the same key. The one without a key is a part
// of its line; the others are made when a job comes, and forgotten when they hold none
// and their bucket is an empty one again.
type lane struct {
	queue    *queueState
	key      string
	digest   queue.LaneDigest
	waiting  waitList
	size     int64 // jobs that hold a place, and places reserved by appends
	bytes    int64 // that those take
	inFlight int64 // jobs that count as in flight
	// incoming is how many jobs are on their way to disk that will wait, by priority.
	incoming [queue.MaxPriority + 1]uint32

	bucket leaky.Bucket
	// pacer is the rule under which the bucket is; the zero Pacer before the lane's first rate.
	pacer leaky.Pacer
	// coveredCost is the cost for which the bucket is held over what an earlier process granted.
	coveredCost int64

	stop leaky.Instant // the receiver put it off until then; 0 is none

	heap       *heap[*lane]  // where it is: among those of its line, those that fade, or nowhere
	heapIndex  int           // there
	tag        int64         // when ready
	restsUntil leaky.Instant // until when, or never
	forgetAt   leaky.Instant // when its bucket is an empty one, when it holds nothing
}

func (ln *lane) keyed() bool { return ln.key != "" }

func (ln *lane) rule() queue.LaneRule { return ln.queue.spec.Lanes.Of(ln.key) }

// busy reports whether as many of the lane's jobs are in flight as may be.
func (ln *lane) busy() bool {
	if ln.queue.spec.Ordered && ln.inFlight > 0 {
		return true
	}
	most := ln.rule().MaxInFlight
	return most > 0 && ln.inFlight >= most
}

// trackInFlight counts a job as in flight, or no more, when its state changes. In an ordered queue
// one that backs off after a failure still counts.
func (ln *lane) trackInFlight(ls *lease, to queue.State) {
	counts := false
	switch to {
	case queue.Leased:
		counts = ln.keyed() || ln.queue.spec.Ordered
	case queue.Scheduled:
		counts = ls.inFlight && ln.queue.spec.Ordered
	}
	if counts && !ls.inFlight {
		ln.inFlight++
	} else if ls.inFlight && !counts {
		ln.inFlight--
	}
	ls.inFlight = counts
}

// incomingTotal is how many of the lane's jobs are on their way to wait.
func (ln *lane) incomingTotal() int64 { return ln.incomingBefore(0) }

// incomingBefore is how many of them have that priority, or a higher one.
func (ln *lane) incomingBefore(priority int) (n int64) {
	for _, k := range ln.incoming[priority:] {
		n += int64(k)
	}
	return n
}

// pacing returns the lane's bucket and rule as they are for a departure that is sought
// from at on. limited is false when it has no rate; its bucket is left alone then.
func (ln *lane) pacing(at, now leaky.Instant) (b leaky.Bucket, p leaky.Pacer, limited bool) {
	rule := ln.rule()
	if rule.Rate.Unlimited() {
		return leaky.Bucket{}, leaky.Pacer{}, false
	}
	b, p = ln.bucket, rule.Pacer()
	switch {
	case ln.unknown(now):
		b = ln.queue.unknownBucket(p)
	case p != ln.pacer:
		b = ln.pacer.Change(b, p, at)
	}
	return b, p, true
}

// unknown reports whether the lane has no bucket, or one that delays nothing any more:
// those might have been forgotten.
func (ln *lane) unknown(now leaky.Instant) bool {
	return ln.pacer == (leaky.Pacer{}) || ln.bucket.TAT <= now
}

// opens is the next departure that the lane's own rate allows, not before at. What a
// changed rule makes of the bucket is kept.
func (ln *lane) opens(at, now leaky.Instant) leaky.Instant {
	b, p, limited := ln.pacing(at, now)
	if !limited {
		return max(at, ln.stopsUntil(now))
	}
	ln.keep(b, p, now)
	return max(p.Next(b, at), ln.stopsUntil(now))
}

func (ln *lane) keep(b leaky.Bucket, p leaky.Pacer, now leaky.Instant) {
	if ln.unknown(now) {
		ln.coveredCost = ln.queue.maxCostAtOpen
	}
	ln.bucket, ln.pacer = b, p
}

// judge is opens for the first of the lane's jobs: one as costly may have left just before
// the end of the process before, when none as costly was known of when the lane was held.
func (ln *lane) judge(d, now leaky.Instant) leaky.Instant {
	at, q := ln.opens(d, now), ln.queue
	if cost := int64(ln.waiting.front().cost); q.openedAt != 0 && !ln.rule().Rate.Unlimited() && cost > ln.coveredCost {
		if ln.pacer.Delay(leaky.Bucket{}, q.openedAt, cost).TAT > now {
			ln.bucket, ln.coveredCost = ln.pacer.Cover(ln.bucket, cost-ln.coveredCost), cost
			at = max(ln.pacer.Next(ln.bucket, d), ln.stopsUntil(now))
		}
	}
	return at
}

// take takes a departure at d, which opens has allowed, from the lane's bucket.
func (ln *lane) take(d, now leaky.Instant, cost int64) {
	if b, p, limited := ln.pacing(d, now); limited {
		if stop := ln.stopsUntil(now); stop != 0 {
			b = p.Rise(b, stop)
		}
		p.Take(&b, d, cost)
		ln.keep(b, p, now)
	}
	ln.stop = 0
}

// unknownBucket is the bucket of a lane of which nothing is known. Buckets of lanes are not on
// file: an earlier process may have granted from it, up to the horizon beyond its end.
func (q *queueState) unknownBucket(p leaky.Pacer) leaky.Bucket {
	if q.openedAt == 0 {
		return leaky.Bucket{}
	}
	return p.Delay(leaky.Bucket{}, q.openedAt, q.maxCostAtOpen)
}

// lane returns the lane of a key, one that is not known yet if it has no jobs. enter
// makes it known.
func (q *queueState) lane(key string, digest queue.LaneDigest) *lane {
	if key == "" {
		return &q.defaultLane
	}
	if ln := q.lanes[digest]; ln != nil {
		return ln
	}
	return &lane{queue: q, key: key, digest: digest, heapIndex: -1}
}

// addToLane counts a job in its lane.
func (q *queueState) addToLane(j *job) {
	ln := j.lane
	q.bytes += j.bytes()
	ln.bytes += j.bytes()
	ln.size++
	if ln.size > 1 || !ln.keyed() {
		return
	}
	if ln.heap != nil { // it was fading
		ln.leave()
		return
	}
	ln.key = strings.Clone(ln.key)
	if q.lanes == nil {
		q.lanes = map[queue.LaneDigest]*lane{}
	}
	q.lanes[ln.digest] = ln
	q.laneOrder.push(ln)
	q.lanesPeak = max(q.lanesPeak, len(q.lanes))
}

// removeFromLane takes a job out of its lane. One that holds nothing is kept for as long as its
// bucket can delay anything.
func (e *Engine) removeFromLane(j *job, now leaky.Instant) {
	ln := j.lane
	ln.queue.bytes -= j.bytes()
	ln.bytes -= j.bytes()
	ln.size--
	if ln.size > 0 || !ln.keyed() {
		return
	}
	if ln.neededUntil() <= now {
		ln.queue.forgetLane(ln)
		return
	}
	ln.forgetAt, ln.waiting = ln.neededUntil(), waitList{}
	ln.enter(&e.idleLanes)
}

// forgetIdleLanes forgets up to limit lanes that hold nothing and whose bucket is empty again.
func (e *Engine) forgetIdleLanes(now leaky.Instant, limit int) {
	for ; limit > 0 && e.idleLanes.len() > 0 && e.idleLanes.top().forgetAt <= now; limit-- {
		ln := e.idleLanes.top()
		ln.leave()
		ln.queue.forgetLane(ln)
	}
}

// forgetLane forgets a lane. A map keeps the size that it had, so it is made anew when few
// lanes of many are left.
func (q *queueState) forgetLane(ln *lane) {
	delete(q.lanes, ln.digest)
	q.laneOrder.remove(ln)
	if n := len(q.lanes); q.lanesPeak > smallMap && n < q.lanesPeak/8 {
		lanes := make(map[queue.LaneDigest]*lane, 2*n)
		for digest, ln := range q.lanes {
			lanes[digest] = ln
		}
		q.lanes, q.lanesPeak = lanes, max(n, smallMap)
	}
}

// smallMap are too few to give memory back for.
const smallMap = 256

// enter puts a lane into a heap, out of the one that it is in.
func (ln *lane) enter(h *heap[*lane]) {
	ln.leave()
	ln.heap = h
	h.push(ln)
}

// leave takes a lane out of the heap that it is in.
func (ln *lane) leave() {
	if ln.heap != nil {
		ln.heap.remove(ln.heapIndex)
		ln.heap = nil
	}
}

func newLanes(less func(a, b *lane) bool) heap[*lane] {
	return heap[*lane]{less: less, moved: func(ln *lane, i int) { ln.heapIndex = i }}
}

func byTag(a, b *lane) bool { return a.tag < b.tag || a.tag == b.tag && byDigest(a, b) }

func byRest(a, b *lane) bool {
	return a.restsUntil < b.restsUntil || a.restsUntil == b.restsUntil && byDigest(a, b)
}

func byForgetAt(a, b *lane) bool { return a.forgetAt < b.forgetAt }

func byDigest(a, b *lane) bool { return bytes.Compare(a.digest[:], b.digest[:]) < 0 }
