package wire

import (
	"time"

	"github.com/penstock/penstock/internal/cause"
)

// Batches is a page of the batches of a queue.
type Batches struct {
	Batches []Batch `json:"batches"`
	Next    string  `json:"next,omitempty"` // "after" of the next page; empty on the last page
}

// Batch is the progress of the jobs that carry a label.
type Batch struct {
	Batch     string     `json:"batch"`
	Accepted  int64      `json:"accepted"`  // including deferred jobs
	Remaining int64      `json:"remaining"` // jobs that have not ended
	Delivered int64      `json:"delivered"`
	Dead      int64      `json:"dead"`
	Cancelled int64      `json:"cancelled"`
	Expired   int64      `json:"expired"`
	Missing   int64      `json:"missing"`  // deferred jobs that the overflow lost
	Failures  int64      `json:"failures"` // dead and expired
	FirstAt   *time.Time `json:"first_at"` // when the first job was appended
	LastAt    *time.Time `json:"last_at"`  // when the last job was appended
	EndedAt   *time.Time `json:"ended_at,omitempty"`
	// FinishAt is when the last of the waiting jobs leaves, while jobs remain; nil is never, as things are.
	FinishAt *time.Time `json:"finish_at"`
	// Exact means that only arithmetic decides FinishAt. AtMost means that it is an upper bound: when the whole queue is
	// empty.
	Exact  bool `json:"exact,omitempty"`
	AtMost bool `json:"at_most,omitempty"`
	// SlowestLane is the lane whose jobs of this batch leave last.
	SlowestLane string      `json:"slowest_lane,omitempty"`
	Why         cause.Cause `json:"why,omitempty"` // why jobs never leave
}

// Progress returns the part of the jobs that have ended, from 0 to 1.
func (b *Batch) Progress() float64 {
	if b.Accepted <= 0 {
		return 1
	}
	return float64(b.Accepted-b.Remaining) / float64(b.Accepted)
}
