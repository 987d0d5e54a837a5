package queue

import (
	"crypto/sha1" //nolint:gosec // it only spreads, no secrecy needed
	"encoding/binary"
	"time"

	"github.com/penstock/penstock/internal/backoff"
	"github.com/penstock/penstock/queue/invalid"
)

// A receiver that answers "too many requests", such as with a 429, throttles its queue. The target distinguishes this
// from a failure (deliver/httptarget/statuses.go) and reads how long to wait (ratelimit.go beside it). The drainer
// settles the job with Throttle, which spends no attempt (drain/verdict.go). The engine stops the queue or the lane
// for that time, or for ThrottleStop (receiver.go of each engine).

// Bounds of a stop if the receiver does not say how long to wait.
const (
	MinThrottleStop = time.Second
	maxThrottleStop = time.Minute
)

// ThrottleStop returns how long to stop a queue whose receiver throttles it and asks for less than MinThrottleStop
// (said), or names no time (said is 0). times is how often that happened in a row before. The first time, the stop is
// said, if given. Otherwise the stop doubles each time, up to a minute. The job's id adds up to a quarter, so that
// queues with the same receiver do not come back together.
func ThrottleStop(said time.Duration, times int64, id string) time.Duration {
	if times == 0 && said > 0 {
		return said
	}
	d := backoff.Doubled(MinThrottleStop, maxThrottleStop, int(min(times, 10)))
	sum := sha1.Sum([]byte(id)) //nolint:gosec // as above
	return (d + d/4*time.Duration(binary.BigEndian.Uint16(sum[:]))/65536).Truncate(time.Microsecond)
}

// ValidateThrottle returns why a queue cannot be throttled for that long, or nil.
func ValidateThrottle(after time.Duration) error {
	if after > 0 {
		return nil
	}
	return invalid.Errorf("after", after.String(), "must be positive")
}

// NoReceiver returns why a parent cannot be throttled.
func NoReceiver(parent string) error {
	return invalid.Errorf("queue", parent, "is a parent and has no receiver; throttle its children")
}
