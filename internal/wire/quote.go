package wire

import (
	"time"

	"github.com/penstock/penstock/leaky"
)

// QuoteRequest asks what would happen to jobs if they were appended now, and at another rate.
type QuoteRequest struct {
	Jobs *int64  `json:"jobs,omitempty"`
	Cost *int64  `json:"cost,omitempty"`
	Lane *string `json:"lane,omitempty"`
	Rate *string `json:"rate,omitempty"`
}

// Quote is the answer to a QuoteRequest. Nothing was appended.
type Quote struct {
	Fit      int64 `json:"fit"`
	Deferred int64 `json:"deferred"`
	Refused  int64 `json:"refused"`
	// RefusedAs is the reason of the refusals: full, lane_full or overflow_full.
	RefusedAs string `json:"refused_as,omitempty"`
	Paused    bool   `json:"paused"`
	// PausedUntil is when the pause ends, if it has an end.
	PausedUntil *time.Time  `json:"paused_until,omitempty"`
	Now         QuoteDates  `json:"now"`
	Then        *QuoteDates `json:"then,omitempty"`
}

// QuoteDates are when jobs would depart at a rate.
type QuoteDates struct {
	Rate      leaky.Rate `json:"rate"`
	FirstAt   *time.Time `json:"first_at,omitempty"`
	LastAt    *time.Time `json:"last_at,omitempty"`
	DrainedAt *time.Time `json:"drained_at,omitempty"`
	// Never is what keeps jobs from ever leaving as things are; absent if all leave.
	Never string `json:"never,omitempty"`
	// Exact means that arithmetic alone decides the dates.
	Exact    bool     `json:"exact"`
	Expiring Expiring `json:"expiring"`
}

// Expiring is how many of the waiting jobs would expire before they depart.
type Expiring struct {
	Jobs  int64 `json:"jobs"`
	Exact bool  `json:"exact"`
	// AtLeast means that not all waiting jobs were counted.
	AtLeast bool `json:"at_least,omitempty"`
}
