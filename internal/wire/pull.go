package wire

import (
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// Pull asks for jobs of a pull queue.
type Pull struct {
	// Max is the most jobs, 1 if it is nil.
	Max *int `json:"max,omitempty"`
	// Wait is how long to wait for the first of them; nil is not at all.
	Wait *unit.Duration `json:"wait,omitempty"`
	// Worker is what to call the worker.
	Worker string `json:"worker,omitempty"`
}

// Lease is one that a worker has: the job's id, and the lease as it was told.
type Lease struct {
	ID    string `json:"id"`
	Lease string `json:"lease"`
}

// Settle ends leases.
type Settle struct {
	Jobs []Settlement `json:"jobs"`
}

// Settlement says what became of a job.
type Settlement struct {
	Lease   `json:",inline"`
	Outcome string `json:"outcome"` // delivered, retry, dead, released, throttled, down
	// After is how long a retry waits; nil is what the queue's spec says. Of throttled, and of delivered, it is for how
	// long nothing shall leave.
	After    *unit.Duration `json:"after,omitempty"`
	LaneOnly bool           `json:"lane_only,omitempty"` // throttled: only the job's lane
	Trouble  bool           `json:"trouble,omitempty"`   // retry: it was the target's fault, whosever job it was
	Reason   string         `json:"reason,omitempty"`
}

// Settled answers Settle, a job each, in their order.
type Settled struct {
	Jobs []SettledJob `json:"jobs"`
}

// SettledJob is where a settlement put a job, that it came too late, or why that is not known.
type SettledJob struct {
	ID    string       `json:"id"`
	State *queue.State `json:"state,omitempty"`
	Stale bool         `json:"stale,omitempty"`
	LeaseFailed
}

// Extend asks for more time.
type Extend struct {
	Jobs []Lease `json:"jobs"`
}

// Extended answers Extend, a job each, in their order.
type Extended struct {
	Jobs []ExtendedJob `json:"jobs"`
}

// ExtendedJob is how long a lease still lasts, 0 if it is lost. Nil is not known, and why: the work goes on.
type ExtendedJob struct {
	ID        string `json:"id"`
	ExpiresIn *int64 `json:"expires_in_ms,omitempty"`
	LeaseFailed
}

// LeaseFailed says why it is not known what became of one lease of several. It stands as before, unless the reason is
// outcome_unknown; asking again is safe. It is empty where that is known.
type LeaseFailed struct {
	Status       int    `json:"status,omitempty"`
	Reason       string `json:"reason,omitempty"`
	Detail       string `json:"detail,omitempty"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
}

// TurnRequest asks for a turn of a pull queue.
type TurnRequest struct {
	// Wait is how long to wait for it; nil leaves that to the ingress.
	Wait *unit.Duration `json:"wait,omitempty"`
}

// Turn says that the caller may start now.
type Turn struct {
	WaitedMS int64 `json:"waited_ms"`
}
