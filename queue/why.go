package queue

import "time"

// Why is what a job waits for that has not left and not ended. It is
// the zero Why for any other.
type Why struct {
	By    Cause
	Until time.Time // zero if that is not known; the ETA says what is expected
	Queue string    // whose pause, pace or quota it is, if it is not the job's own queue: the parent's
	// quota: what it is. Paused: what Pause was told. Backing off, throttled, down, held: the answer after which it is
	Reason string
	Who    string // paused: by whom, and Note who he said that he is
	Note   string
}

// Cause is what holds a job up.
type Cause string

// The causes.
const (
	ByRate            Cause = "rate"               // others are before it, or the next departure is to come
	ByParent          Cause = "parent"             // the same of the group: its siblings take turns with it
	ByQuota           Cause = "quota"              // as many left in this window of the calendar as may
	ByLaneRate        Cause = "lane_rate"          // the same of its lane
	ByLaneMaxInFlight Cause = "lane_max_in_flight" // as many of its lane are in flight as may be
	ByMaxInFlight     Cause = "max_in_flight"      // as many of its queue are
	ByOrdered         Cause = "ordered"            // one of its lane is in flight, or backs off
	ByPaused          Cause = "paused"
	ByThrottled       Cause = "throttled"      // the receiver asked to be spared: the queue, or the lane
	ByDown            Cause = "down"           // the circuit is open; until the next probe
	ByHeld            Cause = "held"           // it may have been sent; a person decides
	ByScheduled       Cause = "scheduled"      // until its NotBefore
	ByBackingOff      Cause = "backing_off"    // until it is tried again
	ByDeferred        Cause = "deferred"       // there is no room, or others are before it on the overflow
	ByDeferredHours   Cause = "deferred_hours" // until jobs come back again
	ByDrainer         Cause = "drainer"        // nothing else: one must ask for it
	ByPuller          Cause = "puller"         // the same of a pull queue
)

// WhyDeferred is why a job of the queue is still on the overflow.
func (d *Deferral) WhyDeferred(now time.Time) Why {
	if w, err := d.Window(); err == nil && !w.Open(now) {
		return Why{By: ByDeferredHours, Until: w.Opens(now)}
	}
	return Why{By: ByDeferred}
}
