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
	NoTarget        Cause = "no_target"      // a drainer found no target to deliver to
	Held            Cause = "held"           // it may have been sent; a person decides
	Scheduled       Cause = "scheduled"      // until its NotBefore
	BackingOff      Cause = "backing_off"    // until it is tried again
	Deferred        Cause = "deferred"       // there is no room, or others are before it on the overflow
	DeferredHours   Cause = "deferred_hours" // until jobs come back again
	Drainer         Cause = "drainer"        // nothing else: one must ask for it
	Puller          Cause = "puller"         // the same of a pull queue
)

// texts say what a job waits for.
var texts = map[Cause]string{
	Rate:            "its turn at the queue's rate",
	Parent:          "its turn at the group's rate",
	Quota:           "the next window of the quota",
	LaneRate:        "its turn at the rate of its lane",
	LaneMaxInFlight: "one of its lane that is in flight",
	MaxInFlight:     "one of its queue that is in flight",
	Ordered:         "the one before it in its lane",
	Paused:          "the queue to be resumed",
	Throttled:       "the receiver, which asked to be spared",
	Down:            "the receiver, which is down",
	NoTarget:        "a target: the queue has none",
	Held:            "a person to decide: it may have been sent",
	Scheduled:       "its instant",
	BackingOff:      "its next attempt",
	Deferred:        "room in the queue",
	DeferredHours:   "the hours in which jobs come back",
	Drainer:         "a drainer to ask for it",
	Puller:          "a worker to ask for it",
}

// Text says what a job waits for, behind "waits for". Of a cause that is not known it is the cause itself.
func (c Cause) Text() string {
	if text, ok := texts[c]; ok {
		return text
	}
	return string(c)
}
