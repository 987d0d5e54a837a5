package wire

import (
	"time"

	"github.com/penstock/penstock/queue"
)

// Jobs is a page of jobs: in one state, or of a search.
type Jobs struct {
	Jobs []Job `json:"jobs"`
	// Next is the after of the next page; absent on the last. A page with a next may be empty.
	Next string `json:"next,omitempty"`
}

// DeadQueue is a queue with dead jobs. Gone says that the queue itself was deleted.
type DeadQueue struct {
	Queue  string     `json:"queue"`
	Dead   int64      `json:"dead"`
	Oldest *time.Time `json:"oldest,omitempty"`
	Gone   bool       `json:"gone,omitempty"`
}

// DeadQueues is a page of queues with dead jobs.
type DeadQueues struct {
	Queues []DeadQueue `json:"queues"`
	Next   string      `json:"next,omitempty"`
}

// Choice selects dead or held jobs.
type Choice struct {
	IDs []string `json:"ids,omitempty"`
	// Reason selects jobs whose last reason contains it.
	Reason string `json:"reason,omitempty"`
	// Before selects jobs that died, or were held, before.
	Before *time.Time `json:"before,omitzero"`
	// Since selects jobs that died, or were held, then or later.
	Since *time.Time `json:"since,omitzero"`
	// After is the Next of the previous answer.
	After  string `json:"after,omitempty"`
	DryRun bool   `json:"dry_run,omitempty"`
}

// Decision selects held jobs and decides about them.
type Decision struct {
	Choice
	Decision string `json:"decision"` // release, delivered or dead
	// Note replaces the reason of jobs that end, unless it is empty.
	Note string `json:"note,omitempty"`
}

// OneDecision decides about one held job.
type OneDecision struct {
	Decision string `json:"decision"`
	Note     string `json:"note,omitempty"`
}

// Decided counts what one request did to dead or held jobs.
type Decided struct {
	LookedAt  int64  `json:"looked_at"`
	Matched   int64  `json:"matched"`
	Replayed  int64  `json:"replayed,omitempty"`
	Forgotten int64  `json:"forgotten,omitempty"`
	NoRoom    int64  `json:"no_room,omitempty"`
	NotDead   int64  `json:"not_dead,omitempty"`
	Broken    int64  `json:"broken,omitempty"`
	Released  int64  `json:"released,omitempty"`
	Delivered int64  `json:"delivered,omitempty"`
	Dead      int64  `json:"dead,omitempty"`
	NotHeld   int64  `json:"not_held,omitempty"`
	Next      string `json:"next,omitempty"`
}

// Add adds the counts of the next request.
func (d *Decided) Add(n Decided) {
	d.LookedAt += n.LookedAt
	d.Matched += n.Matched
	d.Replayed += n.Replayed
	d.Forgotten += n.Forgotten
	d.NoRoom += n.NoRoom
	d.NotDead += n.NotDead
	d.Broken += n.Broken
	d.Released += n.Released
	d.Delivered += n.Delivered
	d.Dead += n.Dead
	d.NotHeld += n.NotHeld
	d.Next = n.Next
}

// Left returns how many jobs were selected but not changed.
func (d *Decided) Left() int64 { return d.NoRoom + d.NotDead + d.Broken + d.NotHeld }

// Replayed is the answer to the replay of one job, with its new state.
type Replayed struct {
	Queue string      `json:"queue"`
	ID    string      `json:"id"`
	State queue.State `json:"state"`
}

// PurgeRequest selects the jobs to cancel.
type PurgeRequest struct {
	States []queue.State `json:"states,omitempty"`
	Lane   *string       `json:"lane,omitempty"`
	// After is the Next of the previous answer.
	After  string `json:"after,omitempty"`
	DryRun bool   `json:"dry_run,omitempty"`
}

// Purged is the progress of a purge.
type Purged struct {
	// Jobs is how many jobs this request cancelled, or would have in a dry run.
	Jobs int64  `json:"purged"`
	Next string `json:"next,omitempty"`
}
