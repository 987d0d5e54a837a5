package queue

import (
	"math/rand/v2"
	"time"
)

// Backoff returns how long to wait after a failed attempt, counting from 1. Without jitter the wait doubles from
// MinBackoff to MaxBackoff. With full jitter it is random, from MinBackoff up to twice the wait without jitter: jobs
// that failed together, as when a receiver goes down, must not come back together, but never before MinBackoff.
func (r *Retry) Backoff(attempt int) time.Duration {
	low, high := r.MinBackoff.D(), r.MaxBackoff.D()
	if r.Jitter == "none" {
		return doubled(low, high, attempt-1)
	}
	high = doubled(low, high, attempt)
	if high <= low {
		return low
	}
	return (low + rand.N(high-low+1)).Round(time.Microsecond)
}

// doubled returns min(d * 2^n, limit).
func doubled(d, limit time.Duration, n int) time.Duration {
	for ; n > 0 && d < limit; n-- {
		if d > limit/2 {
			return limit
		}
		d *= 2
	}
	return min(d, limit)
}
