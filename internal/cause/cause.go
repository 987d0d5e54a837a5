// Package cause has the reasons why a job has not left.
package cause

// Cause is the reason why a job has not left.
type Cause string

// The causes.
const (
	Rate            Cause = "rate"               // other jobs are before it, or the next departure is not due
	Parent          Cause = "parent"             // the same for the group, whose members take turns
	Quota           Cause = "quota"              // the quota of the present window is used up
	Hours           Cause = "hours"              // outside the hours of its queue
	LaneHours       Cause = "lane_hours"         // outside the hours of its lane
	LaneRate        Cause = "lane_rate"          // the rate of its lane
	LaneMaxInFlight Cause = "lane_max_in_flight" // the maximum number of jobs of its lane is in flight
	MaxInFlight     Cause = "max_in_flight"      // the maximum number of jobs of its queue is in flight
	Ordered         Cause = "ordered"            // a job of its lane is in flight or backs off
	Paused          Cause = "paused"
	Throttled       Cause = "throttled"      // the receiver asked the queue or lane to wait
	Down            Cause = "down"           // the circuit is open, until the next probe
	NoTarget        Cause = "no_target"      // a drainer found no target
	Held            Cause = "held"           // may have been sent; a person decides
	Scheduled       Cause = "scheduled"      // waits for its NotBefore
	BackingOff      Cause = "backing_off"    // waits for its next attempt
	Deferred        Cause = "deferred"       // no room, or other jobs are before it on the overflow
	DeferredHours   Cause = "deferred_hours" // outside the hours in which jobs come back
	Drainer         Cause = "drainer"        // nothing but a drainer that asks for it
	Puller          Cause = "puller"         // nothing but a worker that asks for it (pull queue)
)

// texts say what a job waits for.
var texts = map[Cause]string{
	Rate:            "its turn at the queue's rate",
	Parent:          "its turn at the group's rate",
	Quota:           "the next window of the quota",
	Hours:           "the hours of the queue",
	LaneHours:       "the hours of its lane",
	LaneRate:        "its turn at the rate of its lane",
	LaneMaxInFlight: "a job of its lane in flight",
	MaxInFlight:     "a job of its queue in flight",
	Ordered:         "the job before it in its lane",
	Paused:          "the queue to be resumed",
	Throttled:       "the receiver, which asked to wait",
	Down:            "the receiver, which is down",
	NoTarget:        "a target: the queue has none",
	Held:            "a person's decision: it may have been sent",
	Scheduled:       "its scheduled time",
	BackingOff:      "its next attempt",
	Deferred:        "room in the queue",
	DeferredHours:   "the hours in which jobs come back",
	Drainer:         "a drainer to ask for it",
	Puller:          "a worker to ask for it",
}

// Text returns what a job waits for, to follow "waits for". For an unknown cause it returns the cause itself.
func (c Cause) Text() string {
	if text, ok := texts[c]; ok {
		return text
	}
	return string(c)
}
