package queue

import (
	"math/rand/v2"
	"time"

	"github.com/penstock/penstock/internal/backoff"
)

// Backoff returns how long to wait after a failed attempt, counting from 1. Without jitter the wait doubles from
// MinBackoff to MaxBackoff. With full jitter it is random, from MinBackoff up to twice the wait without jitter. So jobs
// that failed together, as when a receiver goes down, do not come back together, and never before MinBackoff.
func (r *Retry) Backoff(attempt int) time.Duration {
	low, high := r.MinBackoff.D(), r.MaxBackoff.D()
	if r.Jitter == "none" {
		return backoff.Doubled(low, high, attempt-1)
	}
	high = backoff.Doubled(low, high, attempt)
	if high <= low {
		return low
	}
	return (low + rand.N(high-low+1)).Round(time.Microsecond)
}
