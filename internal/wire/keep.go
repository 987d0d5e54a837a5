package wire

import (
	"time"

	"github.com/penstock/penstock/queue"
)

// Jobs is a page of jobs in one state.
type Jobs struct {
	Jobs []Job `json:"jobs"`
	// Next is what to give as after for the next page; absent on the last one. A page
	// that has it may be empty.
	Next string `json:"next,omitempty"`
}

// DeadQueue is a queue that has dead jobs, or had when it was deleted.
type DeadQueue struct {
	Queue  string     `json:"queue"`
	Dead   int64      `json:"dead"`
	Oldest *time.Time `json:"oldest,omitempty"`
	Gone   bool       `json:"gone,omitempty"`
}

// DeadQueues is a page of them.
type DeadQueues struct {
	Queues []DeadQueue `json:"queues"`
	Next   string      `json:"next,omitempty"`
}

// Choice says which dead jobs to replay or to forget.
type Choice struct {
	IDs []string `json:"ids,omitempty"`
	// Reason chooses those whose last reason contains it.
	Reason string `json:"reason,omitempty"`
	// Before chooses those that died, or came to be held, before.
	Before *time.Time `json:"before,omitzero"`
	// Since chooses those that did so then or later.
	Since *time.Time `json:"since,omitzero"`
	// After is the Next of the answer before.
	After  string `json:"after,omitempty"`
	DryRun bool   `json:"dry_run,omitempty"`
}

// Decision chooses held jobs, and says what is to become of them.
type Decision struct {
	Choice
	Decision string `json:"decision"` // release, delivered or dead
	// Note replaces the reason of those that end, unless it is empty.
	Note string `json:"note,omitempty"`
}

// OneDecision says what is to become of one held job.
type OneDecision struct {
	Decision string `json:"decision"`
	Note     string `json:"note,omitempty"`
}

// Decided is what became of the dead or held jobs that one request came to.
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

// Add adds what the next request came to.
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

// Left is how many jobs were chosen and stayed as they were.
func (d *Decided) Left() int64 { return d.NoRoom + d.NotDead + d.Broken + d.NotHeld }

// Replayed is the answer to the replay of one job: where it is now.
type Replayed struct {
	Queue string      `json:"queue"`
	ID    string      `json:"id"`
	State queue.State `json:"state"`
}

// PurgeRequest says which jobs to take back.
type PurgeRequest struct {
	States []queue.State `json:"states,omitempty"`
	Lane   *string       `json:"lane,omitempty"`
	// After is the Next of the answer before.
	After  string `json:"after,omitempty"`
	DryRun bool   `json:"dry_run,omitempty"`
}

// Purged is how far a purge has come.
type Purged struct {
	// Jobs were taken back by this request, or would have been.
	Jobs int64  `json:"purged"`
	Next string `json:"next,omitempty"`
}
