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

	pace *lanePace     // nil before the lane's first rate or limit
	stop leaky.Instant // set by the receiver; 0 if not stopped

	heap *heap[*lane] // where it is: a heap of laneTurns, Machine.idleLanes, or nil
	tag  int64        // of a ready lane
	// until is when a resting lane may go on (possibly never), or when the bucket of an empty lane stops delaying.
	until leaky.Instant
}

// lanePace is a lane's own paces: its rate, and its limits in other units. Copies share the limits.
type lanePace struct {
	paces
	limitsOf queue.LaneLimits // the rule that the limits follow
	// coveredCost is the job cost for which the bucket was delayed to cover grants of an earlier process.
	coveredCost int64
	tag         int64  // the lane's, after its last departure; 0 if that is unknown
	commit      uint64 // the last one that wrote its debts; 0 for none
	// guessed is whether this is still what a lane gets about which nothing is known. It follows the present rule,
	// whatever the rule was before.
	guessed bool
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

// pacing returns the paces for a departure at or after at. limited is false if the lane has no rate and no limits; then
// its kept paces do not change.
func (ln *lane) pacing(at, now leaky.Instant) (p lanePace, limited bool) {
	rule := ln.rule()
	if !rule.HasRate() {
		return p, false
	}
	if ln.unknown(now) || ln.pace.guessed {
		return ln.unknownPace(&rule, now), true
	}
	p = *ln.pace
	if to := rule.Pacer(); p.pacer != to {
		p.bucket, p.pacer = p.pacer.Change(p.bucket, to, at), to
	}
	if p.limitsOf != rule.Limits {
		p.follow(rule.Limits, now)
	}
	return p, true
}

// unknown reports whether the paces are missing or delay nothing any more, and so may have been forgotten.
func (ln *lane) unknown(now leaky.Instant) bool {
	return ln.pace == nil || ln.pace.delaysUntil() <= now
}

// opens returns the next departure, not before at, that the lane's own paces and stop allow. It keeps paces that were
// converted to a new rule.
func (ln *lane) opens(at, now leaky.Instant) leaky.Instant {
	if p, limited := ln.pacing(at, now); limited {
		ln.keep(&p)
		at = p.opens(at)
	}
	return ln.hours().next(max(at, ln.stopsUntil(now)), now)
}

// keptTag returns the tag that the last departure left, if the lane may have waited for its own paces since; else 0.
func (ln *lane) keptTag(now leaky.Instant) int64 {
	if rule := ln.rule(); !rule.HasRate() || ln.unknown(now) {
		return 0
	}
	return ln.pace.tag
}

func (ln *lane) keep(p *lanePace) {
	if ln.pace == nil {
		ln.pace = &lanePace{}
	}
	*ln.pace = *p
}

// judge is opens for the lane's first job. If that job costs more than the lane was delayed for, a job as costly may
// have left just before the previous process ended. Then the delay is extended.
func (ln *lane) judge(d, now leaky.Instant) leaky.Instant {
	at, q := ln.opens(d, now), ln.queue
	if rule := ln.rule(); q.earlier == nil || !rule.HasRate() {
		return at
	}
	p, cost := ln.pace, int64(ln.waiting.front().cost)
	if cost > p.coveredCost && p.pacer.Delay(leaky.Bucket{}, q.earlier.until, cost).TAT > now {
		if p.bucket.TAT <= now {
			p.bucket = p.pacer.Delay(p.bucket, q.earlier.until, cost)
		} else {
			p.bucket = p.pacer.Cover(p.bucket, cost-p.coveredCost)
		}
		p.coveredCost, p.guessed = cost, false
		at = ln.hours().next(max(p.opens(d), ln.stopsUntil(now)), now)
	}
	return at
}

// take takes a departure at d, an instant allowed by opens and hasCredit, from the paces. A departure granted ahead of
// the end of the lane's stop does not end the stop.
func (ln *lane) take(d, now leaky.Instant, of bill) {
	p, limited := ln.pacing(d, now)
	if limited {
		if stop := ln.stopsUntil(now); stop != 0 {
			p.bucket = p.pacer.Rise(p.bucket, stop)
		}
		p.pacer.Take(&p.bucket, d, of.cost)
		p.chargeBudgets(d, of)
		p.tag, p.guessed = ln.tag, false
		ln.keep(&p)
	}
	if limited || ln.stop <= now {
		ln.stop = 0
	}
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
	q.storeLane(ln)
}

func (q *queueState) storeLane(ln *lane) {
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
		m.forgetLane(ln)
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
		m.forgetLane(ln)
	}
}

// forgetLane forgets a lane. A Go map never shrinks, so it is copied when few of many lanes are left.
func (m *Machine) forgetLane(ln *lane) {
	q := ln.queue
	m.dropDebts(ln)
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
