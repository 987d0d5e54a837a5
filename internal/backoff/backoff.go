// Package backoff has the exponential backoff of retries.
package backoff

import "time"

// Doubled returns d doubled n times, at most limit.
func Doubled(d, limit time.Duration, n int) time.Duration {
	for ; n > 0 && d < limit; n-- {
		if d > limit/2 {
			return limit
		}
		d *= 2
	}
	return min(d, limit)
}
