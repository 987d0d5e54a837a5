package machine

import (
	"bytes"
	"encoding/binary"
	"strings"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

type laneSet struct {
	defaultLane *lane                      // for jobs without a key; nil if it had no jobs for long
	lanes       map[queue.LaneDigest]*lane // all other lanes
	laneOrder   *sorted[*lane]             // these, by digest
	// lanesPeak is the maximum number of lanes since the map was made.
	lanesPeak    int32
	lanesWaiting int32      // number of lanes with waiting jobs
	laneTurns    *laneTurns // nil until the queue has a lane with a key
	// laneStopsUntil is when the last stop of any lane is over.
	laneStopsUntil leaky.Instant
}

// lane is the jobs of a queue that share a key. It is created with its first job, and forgotten when it is empty and
// its bucket delays nothing. The lane of jobs without a key is forgotten when its queue has been idle for a while.
type lane struct {
	queue    *queueState
	key      string
	digest   queue.LaneDigest
	waiting  waitList
	size     int32 // jobs that hold a place, and places reserved by appends
	inFlight int32 // jobs that count against max_in_flight
	bytes    int64 // size of all jobs that hold a place
	// incoming counts jobs of the lowest priority that will wait once their commits are durable. urgent counts those of
	// each higher priority; it is nil until the first.
	incoming uint32
	// heapIndex is the lane's index in its heap.
	heapIndex int32
	urgent    *[queue.MaxPriority]uint32

	pace *lanePace     // nil before the lane's first rate
	stop leaky.Instant // set by the receiver; 0 if not stopped

	heap *heap[*lane] // where it is: a heap of laneTurns, Machine.idleLanes, or nil
	tag  int64        // of a ready lane
	// until is when a resting lane may go on (possibly never), or when the bucket of an empty lane stops delaying.
	until leaky.Instant
}

// lanePace is a lane's own bucket.
type lanePace struct {
	bucket leaky.Bucket
	pacer  leaky.Pacer // the rate that the bucket follows
	// coveredCost is the job cost for which the bucket was delayed to cover grants of an earlier process.
	coveredCost int64
	tag         int64 // the lane's, after its last departure; 0 if that is unknown
}

func (ln *lane) keyed() bool { return ln.key != "" }

func (ln *lane) rule() queue.LaneRule { return ln.queue.spec.Lanes.Of(ln.key) }

// busy reports whether the lane has as many jobs in flight as it may.
func (ln *lane) busy() bool {
	if ln.queue.spec.Ordered && ln.inFlight > 0 {
		return true
	}
	most := ln.rule().MaxInFlight
	return most > 0 && int64(ln.inFlight) >= most
}

// trackInFlight counts a job in or out of the lane's jobs in flight when its state changes. In an ordered queue, a job
// that backs off after a failure still counts: it blocks its lane.
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

func (ln *lane) incomingTotal() int64 { return ln.incomingBefore(0) }

// incomingBefore returns how many of these have at least that priority.
func (ln *lane) incomingBefore(priority int) (n int64) {
	if priority == 0 {
		n = int64(ln.incoming)
	}
	if ln.urgent != nil {
		for _, k := range ln.urgent[max(0, priority-1):] {
			n += int64(k)
		}
	}
	return n
}

func (ln *lane) incomingOf(priority int) *uint32 {
	if priority == 0 {
		return &ln.incoming
	}
	if ln.urgent == nil {
		ln.urgent = new([queue.MaxPriority]uint32)
	}
	return &ln.urgent[priority-1]
}

// pacing returns the bucket and the rate for a departure at or after at. limited is false without a rate; the bucket
// then stays as it is.
func (ln *lane) pacing(at, now leaky.Instant) (b leaky.Bucket, p leaky.Pacer, limited bool) {
	rule := ln.rule()
	if rule.Rate.Unlimited() {
		return leaky.Bucket{}, leaky.Pacer{}, false
	}
	p = rule.Pacer()
	switch {
	case ln.unknown(now):
		b = ln.queue.unknownBucket(p)
	case p != ln.pace.pacer:
		b = ln.pace.pacer.Change(ln.pace.bucket, p, at)
	default:
		b = ln.pace.bucket
	}
	return b, p, true
}

// unknown reports whether the bucket is missing or delays nothing any more, and so may have been forgotten. A bucket
// may count as up to a horizon later than it is (reign.go), so it is kept that much longer.
func (ln *lane) unknown(now leaky.Instant) bool {
	return ln.pace == nil || ln.pace.bucket.TAT.Add(queue.Horizon) <= now
}

// opens returns the next departure, not before at, that the lane's own rate and stop allow. It keeps a bucket that was
// converted to a new rate.
func (ln *lane) opens(at, now leaky.Instant) leaky.Instant {
	b, p, limited := ln.pacing(at, now)
	if limited {
		ln.keep(b, p, now)
		at = p.Next(b, at)
	}
	return ln.hours().next(max(at, ln.stopsUntil(now)), now)
}

// keptTag returns the tag that the last departure left, if the lane may have waited for its own rate since; else 0.
func (ln *lane) keptTag(now leaky.Instant) int64 {
	if ln.rule().Rate.Unlimited() || ln.unknown(now) {
		return 0
	}
	return ln.pace.tag
}

func (ln *lane) keep(b leaky.Bucket, p leaky.Pacer, now leaky.Instant) {
	unknown := ln.unknown(now)
	if ln.pace == nil {
		ln.pace = &lanePace{}
	}
	if unknown {
		ln.pace.coveredCost, ln.pace.tag = 0, 0
		if e := ln.queue.earlier; e != nil {
			ln.pace.coveredCost = e.maxCost
		}
	}
	ln.pace.bucket, ln.pace.pacer = b, p
}

// judge is opens for the lane's first job. If that job costs more than the lane was delayed for, a job as costly may
// have left just before the previous process ended. Then the delay is extended.
func (ln *lane) judge(d, now leaky.Instant) leaky.Instant {
	at, q := ln.opens(d, now), ln.queue
	if q.earlier == nil || ln.rule().Rate.Unlimited() {
		return at
	}
	p, cost := ln.pace, int64(ln.waiting.front().cost)
	if cost > p.coveredCost && p.pacer.Delay(leaky.Bucket{}, q.earlier.until, cost).TAT > now {
		if p.bucket.TAT <= now {
			p.bucket = p.pacer.Delay(p.bucket, q.earlier.until, cost)
		} else {
			p.bucket = p.pacer.Cover(p.bucket, cost-p.coveredCost)
		}
		p.coveredCost = cost
		at = ln.hours().next(max(p.pacer.Next(p.bucket, d), ln.stopsUntil(now)), now)
	}
	return at
}

// take takes a departure at d, an instant allowed by opens, from the bucket. A departure granted ahead of the end of
// the lane's stop does not end the stop.
func (ln *lane) take(d, now leaky.Instant, cost int64) {
	b, p, limited := ln.pacing(d, now)
	if limited {
		if stop := ln.stopsUntil(now); stop != 0 {
			b = p.Rise(b, stop)
		}
		p.Take(&b, d, cost)
		ln.keep(b, p, now)
		ln.pace.tag = ln.tag
	}
	if limited || ln.stop <= now {
		ln.stop = 0
	}
}

// unknownBucket returns the bucket of a lane about which nothing is known. Lanes' buckets are not on file, so it covers
// what an earlier process may have granted, up to the horizon beyond its end.
func (q *queueState) unknownBucket(p leaky.Pacer) leaky.Bucket {
	if q.earlier == nil {
		return leaky.Bucket{}
	}
	return p.Delay(leaky.Bucket{}, q.earlier.until, q.earlier.maxCost)
}

// lane returns the lane of a key. A lane without jobs is new, and only addToLane stores it.
func (q *queueState) lane(key string, digest queue.LaneDigest) *lane {
	if key == "" {
		return q.ensureDefaultLane()
	}
	if ln := q.lanes[digest]; ln != nil {
		return ln
	}
	return &lane{queue: q, key: key, digest: digest, heapIndex: -1}
}

// ensureDefaultLane returns the default lane, created if missing.
func (q *queueState) ensureDefaultLane() *lane {
	if q.defaultLane == nil {
		q.defaultLane = &lane{queue: q, heapIndex: -1}
	}
	return q.defaultLane
}

func (ln *lane) noneWaits() bool { return ln == nil || ln.waiting.len() == 0 }

func (q *queueState) addToLane(j *job) {
	ln := j.lane
	q.bytes += j.bytes()
	ln.bytes += j.bytes()
	ln.size++
	if ln.size > 1 || !ln.keyed() {
		return
	}
	if ln.heap != nil { // it was idle
		ln.leave()
		return
	}
	ln.key = strings.Clone(ln.key)
	if q.lanes == nil {
		q.lanes = map[queue.LaneDigest]*lane{}
	}
	q.lanes[ln.digest] = ln
	pushTo(&q.laneOrder, byDigest, ln)
	q.lanesPeak = max(q.lanesPeak, int32(len(q.lanes)))
}

// removeFromLane removes a job from its lane. An empty lane is kept while its bucket can still delay a departure.
func (m *Machine) removeFromLane(j *job, now leaky.Instant) {
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
	ln.until, ln.waiting = ln.neededUntil(), waitList{}
	ln.enter(&m.idleLanes)
}

// forgetIdleLanes forgets up to limit empty lanes whose buckets delay nothing any more.
func (m *Machine) forgetIdleLanes(now leaky.Instant, limit int) {
	for ; limit > 0 && m.idleLanes.len() > 0 && m.idleLanes.top().until <= now; limit-- {
		ln := m.idleLanes.top()
		ln.leave()
		ln.queue.forgetLane(ln)
	}
}

// forgetLane forgets a lane. A Go map never shrinks, so it is copied when few of many lanes are left.
func (q *queueState) forgetLane(ln *lane) {
	delete(q.lanes, ln.digest)
	q.laneOrder.remove(ln)
	if n := len(q.lanes); q.lanesPeak > smallMap && n < int(q.lanesPeak)/8 {
		lanes := make(map[queue.LaneDigest]*lane, 2*n)
		for digest, ln := range q.lanes {
			lanes[digest] = ln
		}
		q.lanes, q.lanesPeak = lanes, int32(max(n, smallMap))
	}
}

// smallMap is a size below which a map is not worth shrinking.
const smallMap = 256

func (ln *lane) enter(h *heap[*lane]) {
	ln.leave()
	ln.heap = h
	h.push(ln)
}

func (ln *lane) leave() {
	if ln.heap != nil {
		ln.heap.remove(int(ln.heapIndex))
		ln.heap = nil
	}
}

// newLanes orders lanes by at, and by digest on ties.
func newLanes(at func(*lane) int64) heap[*lane] {
	return heap[*lane]{
		key:   func(ln *lane) heapKey { return heapKey{at(ln), binary.BigEndian.Uint64(ln.digest[:])} },
		less:  byDigest,
		moved: func(ln *lane, i int) { ln.heapIndex = int32(i) },
	}
}

func byTag(ln *lane) int64 { return ln.tag }

func byUntil(ln *lane) int64 { return int64(ln.until) }

func byDigest(a, b *lane) bool { return bytes.Compare(a.digest[:], b.digest[:]) < 0 }
