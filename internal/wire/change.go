package wire

import (
	"time"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// Done describes a change of a queue or a rule.
type Done struct {
	// Number counts the changes of the name, without gaps.
	Number int64     `json:"number"`
	At     time.Time `json:"at"`
	// Last is when the last step was made, for a change of jobs in several steps.
	Last *time.Time `json:"last,omitempty"`
	// By is the authenticated actor; ClaimedBy is the unverified Penstock-By header.
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

// Change is a change of a queue. Secrets in its specs are masked.
type Change struct {
	Done
	Before *queue.Spec `json:"before,omitempty"`
	After  *queue.Spec `json:"after,omitempty"`
}

// RuleChange is a change of a rule, which is shown without its overrides.
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
	// Dropped is how many changes were dropped early, for lack of room.
	Dropped int64 `json:"dropped"`
}

// RollbackRequest names the revision to restore; 0 means the revision before the last change.
type RollbackRequest struct {
	Revision int64 `json:"revision,omitempty"`
	DryRun   bool  `json:"dry_run,omitempty"`
}
