package wire

import (
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// Pull is a request for jobs of a pull queue.
type Pull struct {
	// Max is the maximum number of jobs; nil means 1.
	Max *int `json:"max,omitempty"`
	// Wait is how long to wait for the first job; nil means not at all.
	Wait *unit.Duration `json:"wait,omitempty"`
	// Worker is the worker's name, for people.
	Worker string `json:"worker,omitempty"`
}

// Lease is a worker's lease: the job's id, and the opaque lease that came with the job.
type Lease struct {
	ID    string `json:"id"`
	Lease string `json:"lease"`
}

// Settle is a request to settle leases.
type Settle struct {
	Jobs []Settlement `json:"jobs"`
}

// Settlement is the outcome of a job.
type Settlement struct {
	Lease   `json:",inline"`
	Outcome string `json:"outcome"` // delivered, retry, dead, released, throttled, down
	// After is the delay of a retry; nil means what the queue's spec says. With throttled and delivered, it is how long
	// the queue stops.
	After    *unit.Duration `json:"after,omitempty"`
	LaneOnly bool           `json:"lane_only,omitempty"` // throttled: only the job's lane
	Trouble  bool           `json:"trouble,omitempty"`   // retry: the target's fault, not the job's
	Reason   string         `json:"reason,omitempty"`
	// Actual is what the job has used, by unit. A null is an error, not a zero: in a client it may have been NaN.
	Actual map[string]*int64 `json:"actual,omitempty"`
}

// Settled answers Settle, in the same order.
type Settled struct {
	Jobs []SettledJob `json:"jobs"`
}

// SettledJob is the new state of a job, or that the settlement came too late, or why the outcome is unknown.
type SettledJob struct {
	ID    string       `json:"id"`
	State *queue.State `json:"state,omitempty"`
	Stale bool         `json:"stale,omitempty"`
	LeaseFailed
}

// Extend is a request to extend leases.
type Extend struct {
	Jobs []Lease `json:"jobs"`
}

// Extended answers Extend, in the same order.
type Extended struct {
	Jobs []ExtendedJob `json:"jobs"`
}

// ExtendedJob is the remaining time of a lease, 0 if it is lost. nil means unknown, and LeaseFailed says why: the work
// goes on.
type ExtendedJob struct {
	ID        string `json:"id"`
	ExpiresIn *int64 `json:"expires_in_ms,omitempty"`
	LeaseFailed
}

// LeaseFailed says why the outcome for one of several leases is unknown. Unless the reason is outcome_unknown, nothing
// has changed. Repeating is safe. It is empty if the outcome is known.
type LeaseFailed struct {
	Status       int    `json:"status,omitempty"`
	Reason       string `json:"reason,omitempty"`
	Detail       string `json:"detail,omitempty"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
}

// Throttle is a report that the receiver of a queue asked for a delay.
type Throttle struct {
	After  unit.Duration `json:"after"`
	Reason string        `json:"reason,omitempty"`
}

// Throttled answers Throttle.
type Throttled struct {
	Until *time.Time `json:"until"` // when jobs leave the queue again
}

// TurnRequest is a request for a turn in a pull queue.
type TurnRequest struct {
	// Wait is how long to wait; nil means the ingress's default.
	Wait *unit.Duration `json:"wait,omitempty"`
	// Costs are in other units than jobs; without them, the queue's estimates count.
	Costs map[string]int64 `json:"costs,omitempty"`
	// ReportWithin is how long the caller may take to report what it used; nil means that it will not.
	ReportWithin *unit.Duration `json:"report_within,omitempty"`
}

// Turn means that the caller may start now.
type Turn struct {
	WaitedMS int64 `json:"waited_ms"`
	*LentTurn
}

// LentTurn is what a caller needs that will report what it used.
type LentTurn struct {
	Lease `json:",inline"`
	// Costs are what was charged, in the units that limits count.
	Costs map[string]int64 `json:"costs,omitempty"`
}
