package queue

import (
	"time"

	"github.com/penstock/penstock/internal/cause"
)

// Why is what a job waits for that has not left and not ended. It is
// the zero Why for any other.
type Why struct {
	By    cause.Cause
	Until time.Time // zero if that is not known; the ETA says what is expected
	Queue string    // whose pause, pace or quota it is, if it is not the job's own queue: the parent's
	// quota: what it is. Paused: what Pause was told. Backing off, throttled, down, held: the answer after which it is
	Reason string
	Who    string // paused: by whom, and Note who he said that he is
	Note   string
}

// WhyDeferred is why a job of the queue is still on the overflow.
func (d *Deferral) WhyDeferred(now time.Time) Why {
	if w, err := d.Window(); err == nil && !w.Open(now) {
		return Why{By: cause.DeferredHours, Until: w.Opens(now)}
	}
	return Why{By: cause.Deferred}
}
