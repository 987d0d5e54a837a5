package queue

import (
	"fmt"
	"strings"
	"time"
)

// Bounds of what is kept of the changes of a queue's name: the latest, the oldest going first.
const (
	MaxChanges      = 100
	MaxChangesBytes = 1 << 20             // about; the latest change is kept whatever it takes
	ChangesKept     = 30 * 24 * time.Hour // after the queue was deleted
	// MaxDeletedChanges is of how many deleted queues changes are kept, in a partition.
	MaxDeletedChanges = 1000
)

// Change is what was done to a queue, as its engine recorded it in the same step.
type Change struct {
	At   time.Time // by the engine's clock
	By   string    // as WithBy said; empty if nobody did, and of what the engine did by itself
	What ChangeKind
	// Revision is the queue's after the change, or the last one of a queue that was deleted.
	// Was is the one before it, 0 if there was no queue.
	Revision, Was int64
	// Before and After are the specs, when they were changed: Before is nil of a queue that was
	// made, After of one that was deleted.
	Before, After *Spec
	// Reason and Until are those of a pause. A resume that came by itself has a reason.
	Reason string
	Until  time.Time
}

// ChangeKind is what was done.
type ChangeKind string

// The kinds of changes.
const (
	Created    ChangeKind = "created"
	Changed    ChangeKind = "changed"
	Deleted    ChangeKind = "deleted"
	Paused     ChangeKind = "paused"
	Resumed    ChangeKind = "resumed"
	RolledBack ChangeKind = "rolled_back"
)

// LapseReason is why a queue was resumed by itself.
const LapseReason = "the pause's time came"

// UnknownRevision is the error of a rollback to a revision whose spec is not recorded.
type UnknownRevision struct {
	Queue    string
	Revision int64   // 0 if it was to be the one before the last change
	Known    []int64 // newest first
}

func (e *UnknownRevision) Error() string {
	known := "none is"
	if len(e.Known) > 0 {
		known = "known are " + strings.Trim(fmt.Sprint(e.Known), "[]")
	}
	if e.Revision == 0 {
		return fmt.Sprintf("%s: nothing is recorded of its spec before the last change; of revisions %s", e.Queue, known)
	}
	return fmt.Sprintf("%s: revision %d is not recorded; %s", e.Queue, e.Revision, known)
}

// ValidateChanges checks how many changes are asked for. Its error is a *FieldError.
func ValidateChanges(limit int) error { return within("limit", int64(limit), 1, MaxChanges) }

// Earlier finds the spec that a queue had at a revision, 0 for that before its last change, in
// its changes, newest first. It also returns what the queue's revision is now, 0 if it was deleted.
// Its error is an *UnknownRevision.
func Earlier(name string, list []Change, revision int64) (spec Spec, now int64, err error) {
	unknown := &UnknownRevision{Queue: name, Revision: revision}
	specs := map[int64]*Spec{}
	if len(list) > 0 && list[0].What != Deleted { // which may be a pause: they are recorded with the revision too
		now = list[0].Revision
	}
	last := true
	add := func(revision int64, s *Spec) {
		if s != nil && specs[revision] == nil {
			specs[revision] = s
			unknown.Known = append(unknown.Known, revision)
		}
	}
	for i := range list {
		c := &list[i]
		if c.Before == nil && c.After == nil {
			continue
		}
		if last {
			if last = false; revision == 0 {
				revision = c.Was
			}
		}
		add(c.Revision, c.After)
		add(c.Was, c.Before)
	}
	if specs[revision] == nil {
		return Spec{}, now, unknown
	}
	return *specs[revision], now, nil
}
