package deliver

import (
	"time"

	"github.com/penstock/penstock/drain"
)

// What a handler returns, for those who look for it here; package drain has these and the others (Down, RetryAt,
// LaneThrottled, Trouble), and what each means.

// Permanent is drain.Permanent: trying again is pointless, the job is dead.
func Permanent(err error) error { return drain.Permanent(err) }

// Throttled is drain.Throttled: the receiver asks to be spared until an instant, and so the whole queue stops.
func Throttled(until time.Time) error { return drain.Throttled(until) }

// Unknown is drain.Unknown: it may have been sent, and the queue's on_unknown decides.
func Unknown(err error) error { return drain.Unknown(err) }
