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
	// Nobody is sent further than this beyond the next departure.
	maxRetrySpan = leaky.Instant(365 * 24 * time.Hour / time.Microsecond)
)

// retryAfter is when a refused caller may find room that needs so many jobs to leave. Successive callers are
// staggered at the outflow, so that they do not all come back at once.
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
	t := slowest
	span := min(intervals(q.spec.Capacity, int64(t), 1), maxRetrySpan)
	q.lastRetryAt = max(q.lastRetryAt, room)
	if q.lastRetryAt > room+span {
		q.lastRetryAt = room
	}
	after := max(minRetry, (q.lastRetryAt + min(intervals(jobs-1, int64(t), 1), maxRetrySpan)).Sub(now))
	q.lastRetryAt += t
	return after
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
