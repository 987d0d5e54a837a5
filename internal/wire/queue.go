// Package wire is the JSON in which ingress and client speak of queues, jobs and
// drainers: the one writes what the other reads.
//
// It promises that both mean the same. It refuses to know how any of it travels, or
// how it came about.
package wire

import (
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/status"
	"github.com/penstock/penstock/queue/unit"
)

// Queue is a queue: its spec, with the secrets of its target masked, and how it is
// doing.
type Queue struct {
	queue.Spec
	Revision int64 `json:"revision"`
	// Warnings are what is doubtful about the spec; only in answers to a change.
	Warnings []string `json:"warnings,omitempty"`
	// Flow is nil, and absent, only in the answer to a PUT whose queue could not be
	// read after the change was made.
	*Flow
}

// Flow is how a queue is doing.
type Flow struct {
	Status Status       `json:"status"`
	Paused bool         `json:"paused"`
	Pause  *queue.Pause `json:"pause,omitempty"`
	// Stop is until when nothing leaves because of what the receiver answered; nil if it goes on.
	Stop *queue.Stop `json:"stop,omitempty"`
	// CircuitState is that of the circuit, of which Spec.Circuit has the settings.
	CircuitState *Circuit `json:"circuit_state,omitempty"`
	// Adapted is what the rate is by what the receiver takes; nil if it does not follow that.
	Adapted *Adapted `json:"adapted,omitempty"`
	// Parent is the queue whose rate holds over this one and its siblings.
	Parent *Parent `json:"parent,omitempty"`
	Stats  Stats   `json:"stats"`
}

// Status is what a queue does, and why; see status.Status.
type Status struct {
	Code   status.Code `json:"code"`
	Text   string      `json:"text"` // in UTC
	Until  *time.Time  `json:"until,omitempty"`
	Queue  string      `json:"queue,omitempty"`
	Reason string      `json:"reason,omitempty"`
	By     string      `json:"by,omitempty"`
	// ClaimedBy is what Penstock-By said of who paused it.
	ClaimedBy string `json:"claimed_by,omitempty"`
	Full      bool   `json:"full"`
	// LastAsked is when a drainer, or a worker of a pull queue, last asked for its jobs; nil if that is not known.
	LastAsked *time.Time `json:"last_asked,omitempty"`
}

// Here says it by the zone of now, without the reason.
func (s *Status) Here(now time.Time) string {
	v := status.Status{Code: s.Code, Queue: s.Queue, Full: s.Full}
	if s.Until != nil {
		v.Until = *s.Until
	}
	return v.Text(now)
}

// Adapted is a rate that follows what the receiver takes.
type Adapted struct {
	Rate      leaky.Rate `json:"rate"`
	PerSecond float64    `json:"per_second"`
	// Changes are the latest, newest first; increases that followed each other are one.
	Changes []queue.Adaption `json:"changes"`
}

// Circuit is whether a queue's target is taken to be down.
type Circuit struct {
	State     string        `json:"state"`    // closed, open
	Failures  int64         `json:"failures"` // in a row
	Opened    *time.Time    `json:"opened,omitempty"`
	NextProbe *time.Time    `json:"next_probe,omitempty"`
	Probe     unit.Duration `json:"probe_interval,omitzero"`
	Reason    string        `json:"reason,omitempty"` // the latest failure; while it is open
}

// Parent is what holds over all queues of a group.
type Parent struct {
	Name   string     `json:"name"`
	Rate   leaky.Rate `json:"rate"`
	Paused bool       `json:"paused"`
	Quotas []Quota    `json:"quotas,omitempty"`
}

// Quota is how much of one is used up in the present window of its calendar.
type Quota struct {
	Quota    queue.Quota `json:"quota"`
	Timezone string      `json:"timezone,omitempty"`
	Used     int64       `json:"used"`
	Left     int64       `json:"left"`
	Ends     time.Time   `json:"ends"`
}

// Stats is what a queue holds now and what was counted since it was made.
type Stats struct {
	Waiting   int64 `json:"waiting"`
	Scheduled int64 `json:"scheduled"`
	Leased    int64 `json:"leased"`
	HeldJobs  int64 `json:"held"` // may have been sent; a person decides
	Deferred  int64 `json:"deferred"`
	Dead      int64 `json:"dead"`
	// Bytes is what the jobs take that hold a place, and MaxBytes how much that may be: max_bytes of the queue, or its
	// share of the store; 0 if that is not known.
	Bytes    int64 `json:"bytes"`
	MaxBytes int64 `json:"max_bytes,omitempty"`
	// DeadBytes and DeferredBytes are what dead and deferred jobs take. They count toward max_bytes too.
	DeadBytes     int64 `json:"dead_bytes,omitempty"`
	DeferredBytes int64 `json:"deferred_bytes,omitempty"`
	// Lanes is in how many lanes jobs wait.
	Lanes int64 `json:"lanes"`
	// Children is of how many queues this is the parent.
	Children int64   `json:"children,omitempty"`
	Quotas   []Quota `json:"quotas,omitempty"`

	queue.Counters

	OldestWaiting *time.Time        `json:"oldest_waiting,omitempty"`
	Outflow       float64           `json:"outflow"`
	Next          *time.Time        `json:"next,omitempty"`
	Errors        []queue.LastError `json:"errors"`
}

// Size is how many jobs the queue holds, as its capacity counts them.
func (s *Stats) Size() int64 { return s.Waiting + s.Scheduled + s.Leased + s.HeldJobs }

// Queues is a page of the list of queues.
type Queues struct {
	Queues []Queue `json:"queues"`
	// Next is what to give as after for the next page; absent on the last one.
	Next string `json:"next,omitempty"`
}
