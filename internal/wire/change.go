package wire

import (
	"time"

	"github.com/penstock/penstock/queue"
)

// Change is what was done to a queue. Its specs are shown as a queue's is, with the secrets of
// their targets masked.
type Change struct {
	At       time.Time        `json:"at"`
	By       string           `json:"by,omitempty"`
	What     queue.ChangeKind `json:"what"`
	Revision int64            `json:"revision"`
	Was      int64            `json:"was,omitempty"`
	Before   *queue.Spec      `json:"before,omitempty"`
	After    *queue.Spec      `json:"after,omitempty"`
	Reason   string           `json:"reason,omitempty"`
	Until    *time.Time       `json:"until,omitempty"`
}

// Changes are those of a queue, newest first.
type Changes struct {
	Changes []Change `json:"changes"`
}

// RollbackRequest says to which revision; 0 is the one before the last change.
type RollbackRequest struct {
	Revision int64 `json:"revision,omitempty"`
	DryRun   bool  `json:"dry_run,omitempty"`
}
