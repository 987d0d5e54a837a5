package wire

import (
	"time"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// Done is what was done, to whatever it was.
type Done struct {
	// Number counts the changes of the name, and leaves none out.
	Number int64     `json:"number"`
	At     time.Time `json:"at"`
	// Last is when the last step of a change of jobs was made, if it took several.
	Last *time.Time `json:"last,omitempty"`
	// By is who did it, as was proven, and ClaimedBy is what Penstock-By said, which nobody has verified.
	By        string          `json:"by,omitempty"`
	ClaimedBy string          `json:"claimed_by,omitempty"`
	What      changekind.Kind `json:"what"`
	Revision  int64           `json:"revision,omitempty"`
	Was       int64           `json:"was,omitempty"`
	Jobs      int64           `json:"jobs,omitempty"`
	IDs       []string        `json:"ids,omitempty"`
	Detail    string          `json:"detail,omitempty"`
	Reason    string          `json:"reason,omitempty"`
	Until     *time.Time      `json:"until,omitempty"`
}

// Change is what was done to a queue. Its specs are shown as a queue's is, with the secrets of
// their targets masked.
type Change struct {
	Done
	Before *queue.Spec `json:"before,omitempty"`
	After  *queue.Spec `json:"after,omitempty"`
}

// RuleChange is what was done to a rule, which is shown without its overrides.
type RuleChange struct {
	Done
	Before *rules.Rule `json:"before,omitempty"`
	After  *rules.Rule `json:"after,omitempty"`
}

// Record is a page of changes of a queue or a rule, newest first.
type Record[C Change | RuleChange] struct {
	Changes []C `json:"changes"`
	// Next is the before of the next page; absent on the last.
	Next int64 `json:"next,omitempty"`
	// Dropped is how many changes were dropped before their time, for want of room.
	Dropped int64 `json:"dropped"`
}

// RollbackRequest says to which revision; 0 is the one before the last change.
type RollbackRequest struct {
	Revision int64 `json:"revision,omitempty"`
	DryRun   bool  `json:"dry_run,omitempty"`
}
