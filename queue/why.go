package queue

import (
	"time"

	"github.com/penstock/penstock/internal/cause"
)

// Why is the reason why a job has neither left nor ended. It is zero for any other job.
type Why struct {
	By    cause.Cause
	Until time.Time // zero if unknown; the ETA has the expected time
	Queue string    // the parent, if it is the parent's pause, pace, hours or quota
	// Reason is the quota, the hours, the reason of the pause, or the answer that caused a retry, throttling, an outage
	// or a hold.
	Reason string
	Who    string // paused: who paused it; Note is the name they claimed
	Note   string
}

// WhyDeferred returns why a job of the queue is still on the overflow.
func (d *Deferral) WhyDeferred(now time.Time) Why {
	if s, err := d.Schedule(); err == nil {
		if opens := s.Opens(now); opens.After(now) {
			return Why{By: cause.DeferredHours, Until: opens}
		}
	}
	return Why{By: cause.Deferred}
}
