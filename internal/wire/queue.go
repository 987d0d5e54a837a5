// Package wire defines the JSON of the API, which the ingress writes and the client reads.
//
// It knows neither how the JSON travels nor how its values come about.
package wire

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/status"
	"github.com/penstock/penstock/queue/unit"
)

// Queue is a queue: its spec, with secrets masked, and its state.
type Queue struct {
	queue.Spec
	Revision int64 `json:"revision"`
	// Warnings about the spec, only in answers to a change.
	Warnings []string `json:"warnings,omitempty"`
	// Flow is absent only in the answer to a PUT if the queue could not be read after the change.
	*Flow
}

// Flow is the state of a queue.
type Flow struct {
	Status Status       `json:"status"`
	Paused bool         `json:"paused"`
	Pause  *queue.Pause `json:"pause,omitempty"`
	// Stop is the present stop, because of the receiver's answers; nil if there is none.
	Stop *queue.Stop `json:"stop,omitempty"`
	// CircuitState is the state of the circuit; Spec.Circuit has its settings.
	CircuitState *Circuit `json:"circuit_state,omitempty"`
	// Adapted is the adapted rate; nil for a queue without adapt or learn.
	Adapted *Adapted `json:"adapted,omitempty"`
	// Parent is the queue whose rate is shared by this one and its siblings.
	Parent *Parent `json:"parent,omitempty"`
	Stats  Stats   `json:"stats"`
	// Calls are the calls through the proxy of the server that answers; nil if it passes no calls to this queue on.
	Calls *Calls `json:"calls,omitempty"`
	// Outlook is the forecast as of the latest reading of all queues; nil while it is not known, and in lists.
	Outlook *Outlook `json:"outlook,omitempty"`
}

// Calls are the calls to a queue at one server. Other servers may have more.
type Calls struct {
	Waiting int64 `json:"waiting"` // for their turns
	Active  int64 `json:"active"`  // sent, and their answers have not ended
}

// Status is the status of a queue; see status.Status.
type Status struct {
	Code status.Code `json:"code"`
	Text string      `json:"text"` // in UTC
	// Since is when the queue stopped; nil if unknown, or if it has not stopped.
	Since  *time.Time `json:"since,omitempty"`
	Until  *time.Time `json:"until,omitempty"`
	Queue  string     `json:"queue,omitempty"`
	Reason string     `json:"reason,omitempty"`
	By     string     `json:"by,omitempty"`
	// ClaimedBy is the unverified Penstock-By header of the pause.
	ClaimedBy string `json:"claimed_by,omitempty"`
	Full      bool   `json:"full"`
	// LastAsked is when a drainer, or a worker of a pull queue, last asked for its jobs; nil if unknown.
	LastAsked *time.Time `json:"last_asked,omitempty"`
}

// Here returns the status as text in the time zone of now, without the reason.
func (s *Status) Here(now time.Time) string {
	v := status.Status{Code: s.Code, Queue: s.Queue, Full: s.Full}
	if s.Until != nil {
		v.Until = *s.Until
	}
	return v.Text(now)
}

// Adapted is a rate that adapts to the receiver.
type Adapted struct {
	Rate      leaky.Rate `json:"rate"`
	PerSecond float64    `json:"per_second"`
	// Changes are the latest changes, newest first; successive increases are one.
	Changes []queue.RateChange `json:"changes"`
}

// Circuit is the state of a queue's circuit.
type Circuit struct {
	State     string        `json:"state"`    // closed, open
	Failures  int64         `json:"failures"` // in a row
	Opened    *time.Time    `json:"opened,omitempty"`
	NextProbe *time.Time    `json:"next_probe,omitempty"`
	Probe     unit.Duration `json:"probe_interval,omitzero"`
	Reason    string        `json:"reason,omitempty"` // the latest failure, while open
}

// Parent is the part of a parent queue that affects its children.
type Parent struct {
	Name   string     `json:"name"`
	Rate   leaky.Rate `json:"rate"`
	Paused bool       `json:"paused"`
	Quotas []Quota    `json:"quotas,omitempty"`
	// Budgets are the rates in other units than jobs.
	Budgets []Budget `json:"budgets,omitempty"`
	// Guaranteed is the part of the rate that the child has whatever its siblings do, in jobs per second.
	Guaranteed float64 `json:"guaranteed_per_second,omitempty"`
}

// Quota is the usage of a quota in the present window of its calendar.
type Quota struct {
	Unit     string      `json:"unit,omitempty"` // empty for jobs
	Quota    queue.Quota `json:"quota"`
	Timezone string      `json:"timezone,omitempty"`
	Used     int64       `json:"used"`
	Left     int64       `json:"left"`
	Ends     time.Time   `json:"ends"`
	Ramp     *Ramp       `json:"ramp,omitempty"`
}

// Budget is the usage of a rate in another unit than jobs.
type Budget struct {
	Unit  string     `json:"unit"`
	Rate  leaky.Rate `json:"rate"`
	Burst int64      `json:"burst"`
	// Used is how much of the burst is in use. Above the burst, it is a debt, which is paid before the next job leaves.
	Used int64 `json:"used"`
	// Free is when nothing is in use, if nothing leaves until then.
	Free time.Time `json:"free"`
}

// Estimate is what a queue has learned of the costs in a unit.
type Estimate struct {
	Unit string `json:"unit"`
	// Cost is what a job that states none is charged.
	Cost  int64  `json:"cost"`
	Learn string `json:"learn"` // such as p95
	// Known is the number of actual costs that are known; below queue.LearnAfter, the cost is the default.
	Known int `json:"known"`
}

// Ramp is the present step of a quota that grows.
type Ramp struct {
	Step  int64 `json:"step"` // from 1
	Steps int64 `json:"steps"`
	// Next is the maximum of the next window, if something leaves in this one.
	Next int64  `json:"next"`
	From string `json:"from,omitempty"`
}

// RampText describes the step of a ramp, such as "day 4 of the ramp: 400/d today, 800 tomorrow"; empty without a ramp.
func (q Quota) RampText() string {
	if q.Ramp == nil {
		return ""
	}
	period := q.Quota.Period()
	these := [2]string{"this " + period, "next " + period}
	if q.Quota.Per == "d" {
		these = [2]string{"today", "tomorrow"}
	}
	switch r := q.Ramp; {
	case r.Step == r.Steps:
		return "last step of the ramp"
	case r.Next <= q.Quota.Max:
		return "the ramp begins on " + r.From
	default:
		return fmt.Sprintf("%s %d of the ramp: %s %s, %d %s", period, r.Step, q.Quota, these[0], r.Next, these[1])
	}
}

// Stats are the present contents of a queue, and counters since it was created.
type Stats struct {
	Waiting   int64 `json:"waiting"`
	Scheduled int64 `json:"scheduled"`
	Leased    int64 `json:"leased"`
	HeldJobs  int64 `json:"held"` // may have been sent; awaiting a decision
	Deferred  int64 `json:"deferred"`
	Dead      int64 `json:"dead"`
	// Bytes is the size of the jobs that count toward the capacity. MaxBytes is the limit: max_bytes of the queue, or its
	// share of the store; 0 if unknown.
	Bytes    int64 `json:"bytes"`
	MaxBytes int64 `json:"max_bytes,omitempty"`
	// DeadBytes and DeferredBytes are the sizes of dead and deferred jobs. They count toward max_bytes too.
	DeadBytes     int64 `json:"dead_bytes,omitempty"`
	DeferredBytes int64 `json:"deferred_bytes,omitempty"`
	// Lanes is the number of lanes with waiting jobs.
	Lanes int64 `json:"lanes"`
	// Children is the number of child queues.
	Children int64    `json:"children,omitempty"`
	Quotas   []Quota  `json:"quotas,omitempty"`
	Budgets  []Budget `json:"budgets,omitempty"`
	// Estimates has an entry for each unit whose cost is learned.
	Estimates []Estimate `json:"estimates,omitempty"`

	queue.Counters

	OldestWaiting *time.Time        `json:"oldest_waiting,omitempty"`
	Outflow       float64           `json:"outflow"`
	Next          *time.Time        `json:"next,omitempty"`
	Errors        []queue.LastError `json:"errors"`
}

// Size returns how many jobs the queue holds, as counted by its capacity.
func (s *Stats) Size() int64 { return s.Waiting + s.Scheduled + s.Leased + s.HeldJobs }

// Queues is a page of queues.
type Queues struct {
	Queues []Queue `json:"queues"`
	// Next is the after of the next page; absent on the last.
	Next string `json:"next,omitempty"`
}
