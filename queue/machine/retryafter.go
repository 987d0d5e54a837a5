package machine

import (
	"math"
	"math/bits"
	"time"

	"github.com/penstock/penstock/leaky"
)

// What a refused caller is told when nothing better is known.
const (
	pausedRetry    = 30 * time.Second
	unlimitedRetry = 100 * time.Millisecond
	minRetry       = time.Millisecond
	// maxRetrySpan bounds how long the room that a caller needs may take to become free behind its slot.
	maxRetrySpan = leaky.Instant(365 * 24 * time.Hour / time.Microsecond)
	// maxPromise bounds how far the slots promised to refused callers reach beyond the next departure, unless one interval
	// is longer.
	maxPromise = leaky.Instant(time.Hour / time.Microsecond)
	// lapsing is the part of the promised slots that is taken back when one was not used: one in so many.
	lapsing = 8
)

// retryAfter returns when a refused caller may find room that needs so many jobs to leave. Consecutive callers are
// promised consecutive departures, so that each finds a place when it comes back.
func (q *queueState) retryAfter(jobs int64, now leaky.Instant) time.Duration {
	if q.paused(now) {
		return pausedRetry
	}
	room, slowest := max(q.opens(now), q.receiver.stop), q.interval()
	if p := q.parent(); p != nil {
		room, slowest = max(room, p.opens(now)), max(slowest, p.interval())
	}
	if slowest == 0 {
		return max(unlimitedRetry, room.Sub(now))
	}
	slot := min(max(q.promised, room), room+max(maxPromise, slowest))
	q.promised = slot + slowest
	return max(minRetry, (slot + min(intervals(jobs-1, int64(slowest), 1), maxRetrySpan)).Sub(now))
}

// lapsePromises takes promised slots back when a job comes in while two such jobs find room: had the callers that were
// promised earlier slots come back, they would have taken it.
func (q *queueState) lapsePromises(bytes, most int64, now leaky.Instant) {
	if q.promised > now && q.spec.Capacity-q.size() >= 2 && q.bytes+2*bytes <= most {
		q.promised -= (q.promised - now) / lapsing
	}
}

// laneRetryAfter is the same for a lane that is full, without the staggering.
func (q *queueState) laneRetryAfter(ln *lane, jobs int64, now leaky.Instant) time.Duration {
	next := max(now, ln.stopsUntil(now))
	if b, p, limited := ln.pacing(now, now); limited {
		next = max(next, p.Next(b, now))
	}
	next = max(
		next, now+min(intervals(jobs*(int64(q.lanesWaiting)+int64(q.incoming.lanes)), int64(q.interval()), 1), maxRetrySpan),
	)
	return max(minRetry, next.Sub(now))
}

// scheduleRetryAfter is how long until the first scheduled job is due.
func (q *queueState) scheduleRetryAfter(now leaky.Instant) time.Duration {
	first := never
	if q.scheduled.len() > 0 {
		first = q.scheduled.top().due
	}
	if q.incoming.scheduled() > 0 {
		first = min(first, q.incoming.later.top().due)
	}
	return max(minRetry, first.Sub(q.env.wall(now)))
}

// intervals is k*d/n microseconds, rounded up and bounded well below overflow.
func intervals(k, d, n int64) leaky.Instant {
	hi, lo := bits.Mul64(uint64(k), uint64(d))
	lo, carry := bits.Add64(lo, uint64(n-1), 0)
	if hi += carry; hi >= uint64(n) {
		return math.MaxInt64 / 4
	}
	whole, _ := bits.Div64(hi, lo, uint64(n))
	return leaky.Instant(min(whole, math.MaxInt64/4))
}
