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
	line   *line
	key    string
	digest queue.LaneDigest
	fifo   tiers
	held   int64 // jobs that hold a place, and places reserved by appends
	bytes  int64 // that those take
	flying int64 // jobs that count as in flight
	// coming is how many jobs are on their way to disk that will wait, by priority.
	coming [queue.MaxPriority + 1]uint32

	bucket leaky.Bucket
	// pacer is the rule under which the bucket is; the zero Pacer before the lane's first rate.
	pacer leaky.Pacer
	// covered is the cost for which the bucket is held over what an earlier process granted.
	covered int64

	stop leaky.Instant // the receiver put it off until then; 0 is none

	in    *heap[*lane]  // where it is: among those of its line, those that fade, or nowhere
	place int           // there
	tag   int64         // when ready
	rests leaky.Instant // until when, or never
	fades leaky.Instant // when its bucket is an empty one, when it holds nothing
}

func (ln *lane) keyed() bool { return ln.key != "" }

func (ln *lane) rule() queue.LaneRule { return ln.line.spec.Lanes.Of(ln.key) }

// busy reports whether as many of the lane's jobs are in flight as may be.
func (ln *lane) busy() bool {
	if ln.line.spec.Ordered && ln.flying > 0 {
		return true
	}
	most := ln.rule().MaxInFlight
	return most > 0 && ln.flying >= most
}

// track counts a job as in flight, or no more, when its state changes. In an ordered queue
// one that backs off after a failure still counts.
func (ln *lane) track(f *flight, to queue.State) {
	counts := false
	switch to {
	case queue.Leased:
		counts = ln.keyed() || ln.line.spec.Ordered
	case queue.Scheduled:
		counts = f.counts && ln.line.spec.Ordered
	}
	if counts && !f.counts {
		ln.flying++
	} else if f.counts && !counts {
		ln.flying--
	}
	f.counts = counts
}

// awaited is how many of the lane's jobs are on their way to wait.
func (ln *lane) awaited() int64 { return ln.before(0) }

// before is how many of them have that priority, or a higher one.
func (ln *lane) before(priority int) (n int64) {
	for _, k := range ln.coming[priority:] {
		n += int64(k)
	}
	return n
}

// paced returns the lane's bucket and rule as they are for a departure that is sought
// from at on. limited is false when it has no rate; its bucket is left alone then.
func (ln *lane) paced(at, now leaky.Instant) (b leaky.Bucket, p leaky.Pacer, limited bool) {
	rule := ln.rule()
	if rule.Rate.Unlimited() {
		return leaky.Bucket{}, leaky.Pacer{}, false
	}
	b, p = ln.bucket, rule.Pacer()
	switch {
	case ln.unknown(now):
		b = ln.line.lost(p)
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
	b, p, limited := ln.paced(at, now)
	if !limited {
		return max(at, ln.stops(now))
	}
	ln.keep(b, p, now)
	return max(p.Next(b, at), ln.stops(now))
}

func (ln *lane) keep(b leaky.Bucket, p leaky.Pacer, now leaky.Instant) {
	if ln.unknown(now) {
		ln.covered = ln.line.dearest
	}
	ln.bucket, ln.pacer = b, p
}

// judge is opens for the first of the lane's jobs: one as costly may have left just before
// the end of the process before, when none as costly was known of when the lane was held.
func (ln *lane) judge(d, now leaky.Instant) leaky.Instant {
	at, l := ln.opens(d, now), ln.line
	if cost := int64(ln.fifo.front().cost); l.since != 0 && !ln.rule().Rate.Unlimited() && cost > ln.covered {
		if ln.pacer.Hold(leaky.Bucket{}, l.since, cost).TAT > now {
			ln.bucket, ln.covered = ln.pacer.Cover(ln.bucket, cost-ln.covered), cost
			at = max(ln.pacer.Next(ln.bucket, d), ln.stops(now))
		}
	}
	return at
}

// take takes a departure at d, which opens has allowed, from the lane's bucket.
func (ln *lane) take(d, now leaky.Instant, cost int64) {
	if b, p, limited := ln.paced(d, now); limited {
		if stop := ln.stops(now); stop != 0 {
			b = p.Rise(b, stop)
		}
		p.Take(&b, d, cost)
		ln.keep(b, p, now)
	}
	ln.stop = 0
}

// lost is the bucket of a lane of which nothing is known. Buckets of lanes are not on
// file: an earlier process may have granted from it, up to the horizon beyond its end.
func (l *line) lost(p leaky.Pacer) leaky.Bucket {
	if l.since == 0 {
		return leaky.Bucket{}
	}
	return p.Hold(leaky.Bucket{}, l.since, l.dearest)
}

// lane returns the lane of a key, one that is not known yet if it has no jobs. enter
// makes it known.
func (l *line) lane(key string, digest queue.LaneDigest) *lane {
	if key == "" {
		return &l.bare
	}
	if ln := l.lanes[digest]; ln != nil {
		return ln
	}
	return &lane{line: l, key: key, digest: digest, place: -1}
}

// board counts a job in its lane.
func (l *line) board(j *job) {
	ln := j.lane
	l.bytes += j.bytes()
	ln.bytes += j.bytes()
	ln.held++
	if ln.held > 1 || !ln.keyed() {
		return
	}
	if ln.in != nil { // it was fading
		ln.leave()
		return
	}
	ln.key = strings.Clone(ln.key)
	if l.lanes == nil {
		l.lanes = map[queue.LaneDigest]*lane{}
	}
	l.lanes[ln.digest] = ln
	l.roll.push(ln)
	l.mostLanes = max(l.mostLanes, len(l.lanes))
}

// alight takes a job out of its lane. One that holds nothing is kept for as long as its
// bucket can delay anything.
func (e *Engine) alight(j *job, now leaky.Instant) {
	ln := j.lane
	ln.line.bytes -= j.bytes()
	ln.bytes -= j.bytes()
	ln.held--
	if ln.held > 0 || !ln.keyed() {
		return
	}
	if ln.lasts() <= now {
		ln.line.forget(ln)
		return
	}
	ln.fades, ln.fifo = ln.lasts(), tiers{}
	ln.enter(&e.fading)
}

// fade forgets up to limit lanes that hold nothing and whose bucket is empty again.
func (e *Engine) fade(now leaky.Instant, limit int) {
	for ; limit > 0 && e.fading.len() > 0 && e.fading.top().fades <= now; limit-- {
		ln := e.fading.top()
		ln.leave()
		ln.line.forget(ln)
	}
}

// forget forgets a lane. A map keeps the size that it had, so it is made anew when few
// lanes of many are left.
func (l *line) forget(ln *lane) {
	delete(l.lanes, ln.digest)
	l.roll.remove(ln)
	if n := len(l.lanes); l.mostLanes > fewLanes && n < l.mostLanes/8 {
		lanes := make(map[queue.LaneDigest]*lane, 2*n)
		for digest, ln := range l.lanes {
			lanes[digest] = ln
		}
		l.lanes, l.mostLanes = lanes, max(n, fewLanes)
	}
}

// fewLanes are too few to give memory back for.
const fewLanes = 256

// enter puts a lane into a heap, out of the one that it is in.
func (ln *lane) enter(h *heap[*lane]) {
	ln.leave()
	ln.in = h
	h.push(ln)
}

// leave takes a lane out of the heap that it is in.
func (ln *lane) leave() {
	if ln.in != nil {
		ln.in.remove(ln.place)
		ln.in = nil
	}
}

func newLanes(less func(a, b *lane) bool) heap[*lane] {
	return heap[*lane]{less: less, moved: func(ln *lane, i int) { ln.place = i }}
}

func byTag(a, b *lane) bool { return a.tag < b.tag || a.tag == b.tag && byDigest(a, b) }

func byRest(a, b *lane) bool { return a.rests < b.rests || a.rests == b.rests && byDigest(a, b) }

func byFading(a, b *lane) bool { return a.fades < b.fades }

func byDigest(a, b *lane) bool { return bytes.Compare(a.digest[:], b.digest[:]) < 0 }
