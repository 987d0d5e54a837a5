// Package cause has what can hold a job up.
package cause

// Cause is what holds a job up.
type Cause string

// The causes.
const (
	Rate            Cause = "rate"               // others are before it, or the next departure is to come
	Parent          Cause = "parent"             // the same of the group: its siblings take turns with it
	Quota           Cause = "quota"              // as many left in this window of the calendar as may
	LaneRate        Cause = "lane_rate"          // the same of its lane
	LaneMaxInFlight Cause = "lane_max_in_flight" // as many of its lane are in flight as may be
	MaxInFlight     Cause = "max_in_flight"      // as many of its queue are
	Ordered         Cause = "ordered"            // one of its lane is in flight, or backs off
	Paused          Cause = "paused"
	Throttled       Cause = "throttled"      // the receiver asked to be spared: the queue, or the lane
	Down            Cause = "down"           // the circuit is open; until the next probe
	Held            Cause = "held"           // it may have been sent; a person decides
	Scheduled       Cause = "scheduled"      // until its NotBefore
	BackingOff      Cause = "backing_off"    // until it is tried again
	Deferred        Cause = "deferred"       // there is no room, or others are before it on the overflow
	DeferredHours   Cause = "deferred_hours" // until jobs come back again
	Drainer         Cause = "drainer"        // nothing else: one must ask for it
	Puller          Cause = "puller"         // the same of a pull queue
)
