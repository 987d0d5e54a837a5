package queue

import (
	"time"

	"github.com/penstock/penstock/internal/cause"
)

// Why is the reason why a job has neither left nor ended. It is zero for any other job.
type Why struct {
	By    cause.Cause
	Until time.Time // zero if unknown; the ETA has the expected time
	Queue string    // the parent, if it is the parent's pause, pace or quota
	// Reason is the quota, the reason of the pause, or the answer that caused a retry, throttling, an outage or a
	// hold.
	Reason string
	Who    string // paused: who paused it; Note is the name they claimed
	Note   string
}

// WhyDeferred returns why a job of the queue is still on the overflow.
func (d *Deferral) WhyDeferred(now time.Time) Why {
	if w, err := d.Window(); err == nil && !w.Open(now) {
		return Why{By: cause.DeferredHours, Until: w.Opens(now)}
	}
	return Why{By: cause.Deferred}
}
