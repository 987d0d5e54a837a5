package queue

import (
	"crypto/sha1" //nolint:gosec // it spreads, and keeps nothing secret
	"encoding/binary"
	"time"
)

// A receiver that answers "too many", as with a 429, throttles its queue. The target tells it from a failure
// (deliver/httptarget/statuses.go), and until when (ratelimit.go beside it); the drainer settles the job with Throttle,
// which spends no attempt (drain/verdict.go); the engine stops the queue, or the lane, for as long as was said, or else
// for ThrottleStop (receiver.go of each engine).

// For how long a queue stops whose receiver does not say for how long.
const (
	MinThrottleStop = time.Second
	maxThrottleStop = time.Minute
)

// ThrottleStop is for how long a queue stops whose receiver throttles it and does not say until when, or says less than
// MinThrottleStop: from that it doubles to a minute; times is how often it did already without a success between. It is
// up to a quarter longer by the job's id, so that queues that have one receiver do not come back together. What it said
// counts the first time.
func ThrottleStop(said time.Duration, times int64, id string) time.Duration {
	if times == 0 && said > 0 {
		return said
	}
	d := doubled(MinThrottleStop, maxThrottleStop, int(min(times, 10)))
	sum := sha1.Sum([]byte(id)) //nolint:gosec // so
	return (d + d/4*time.Duration(binary.BigEndian.Uint16(sum[:]))/65536).Truncate(time.Microsecond)
}
