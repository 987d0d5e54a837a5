package provider

import (
	"math"
	"time"
)

// meter is a budget that calls are charged to. Instants never decrease.
type meter interface {
	// left returns the rest of the budget; below zero is debt.
	left(now time.Time) float64
	// charge takes n from the budget, whatever is left.
	charge(now time.Time, n int64)
	// wait returns the time until n are left, if nothing is charged meanwhile.
	wait(now time.Time, n int64) time.Duration
	// reset returns the time until the whole budget is left.
	reset(now time.Time) time.Duration
}

// tolerance makes up for the rounding of fractions, so that calls at exactly the limit are within it.
const tolerance = 1e-6

// enough reports whether n are left.
func enough(m meter, now time.Time, n int64) bool { return m.left(now) >= float64(n)-tolerance }

// bucket is a budget that is refilled continuously, up to its size.
type bucket struct {
	limit Limit
	size  float64
	level float64
	at    time.Time // of level
}

func newBucket(limit Limit, size int64) *bucket {
	return &bucket{limit: limit, size: float64(size), level: float64(size)}
}

func (b *bucket) left(now time.Time) float64 {
	if !b.at.IsZero() {
		b.level = min(b.size, b.level+b.limit.per(now.Sub(b.at)))
	}
	b.at = now
	return b.level
}

func (b *bucket) charge(now time.Time, n int64) { b.level = b.left(now) - float64(n) }

func (b *bucket) wait(now time.Time, n int64) time.Duration {
	return b.limit.time(max(0, float64(n)-b.left(now)))
}

func (b *bucket) reset(now time.Time) time.Duration { return b.limit.time(b.size - b.left(now)) }

// window is a budget that is renewed as a whole, in periods of the clock.
type window struct {
	limit Limit
	used  int64
	since time.Time
}

func (w *window) left(now time.Time) float64 {
	if start := now.Truncate(w.limit.Per); !start.Equal(w.since) {
		w.since, w.used = start, 0
	}
	return float64(w.limit.N - w.used)
}

func (w *window) charge(now time.Time, n int64) {
	w.left(now)
	w.used += n
}

func (w *window) wait(now time.Time, n int64) time.Duration {
	if enough(w, now, n) {
		return 0
	}
	return w.reset(now)
}

func (w *window) reset(now time.Time) time.Duration {
	w.left(now)
	return w.since.Add(w.limit.Per).Sub(now)
}

// whole returns the rest of a budget as callers see it.
func whole(left float64) int64 { return max(0, int64(math.Floor(left+tolerance))) }
