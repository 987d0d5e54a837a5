package queue

import (
	"crypto/sha1" //nolint:gosec // it spreads, and keeps nothing secret
	"encoding/binary"
	"math/rand/v2"
	"time"
)

// Backoff returns how long to wait after the given attempt, counting from 1,
// failed. Without jitter it doubles from min to max. With full jitter it is
// anything between min and twice that: jobs that failed together, as they do when a
// receiver goes down, must not come back together, but none comes back
// before min_backoff.
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

// doubled is min(d * 2^n, limit).
func doubled(d, limit time.Duration, n int) time.Duration {
	for ; n > 0 && d < limit; n-- {
		if d > limit/2 {
			return limit
		}
		d *= 2
	}
	return min(d, limit)
}

// For how long a receiver is spared that does not say until when.
const (
	MinSpare = time.Second
	maxSpare = time.Minute
)

// Spare is for how long a queue stops whose receiver asks to be spared and does not say until when, or says less than
// MinSpare: from MinSpare it doubles to maxSpare, times is how often it did already without a success between. It is up
// to a quarter longer by the job's id, so that queues that have one receiver do not come back together. What it said
// counts the first time.
func Spare(said time.Duration, times int64, id string) time.Duration {
	if times == 0 && said > 0 {
		return said
	}
	d := doubled(MinSpare, maxSpare, int(min(times, 10)))
	sum := sha1.Sum([]byte(id)) //nolint:gosec // so
	return (d + d/4*time.Duration(binary.BigEndian.Uint16(sum[:]))/65536).Truncate(time.Microsecond)
}
