package wire

import (
	"time"

	"github.com/penstock/penstock/leaky"
)

// QuoteRequest asks what would become of jobs if they were appended now, and at another rate.
type QuoteRequest struct {
	Jobs *int64  `json:"jobs,omitempty"`
	Cost *int64  `json:"cost,omitempty"`
	Lane *string `json:"lane,omitempty"`
	Rate *string `json:"rate,omitempty"`
}

// Quote is the answer. Nothing was appended.
type Quote struct {
	Fit      int64 `json:"fit"`
	Deferred int64 `json:"deferred"`
	Refused  int64 `json:"refused"`
	// RefusedAs is the reason that those would be told: full, lane_full, overflow_full.
	RefusedAs string `json:"refused_as,omitempty"`
	Paused    bool   `json:"paused"`
	// PausedUntil is from when on the instants are, if the queue goes on by itself.
	PausedUntil *time.Time `json:"paused_until,omitempty"`
	Now         Forecast   `json:"now"`
	Then        *Forecast  `json:"then,omitempty"`
}

// Forecast is when jobs would leave at a rate.
type Forecast struct {
	Rate      leaky.Rate `json:"rate"`
	FirstAt   *time.Time `json:"first_at,omitempty"`
	LastAt    *time.Time `json:"last_at,omitempty"`
	DrainedAt *time.Time `json:"drained_at,omitempty"`
	Expiring  Expiring   `json:"expiring"`
}

// Expiring is how many of the jobs that wait would expire before they leave.
type Expiring struct {
	Jobs  int64 `json:"jobs"`
	Exact bool  `json:"exact"`
	// AtLeast means that not all that wait were looked at.
	AtLeast bool `json:"at_least,omitempty"`
}
