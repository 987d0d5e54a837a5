// Package changekind has the kinds of changes that a store records for queues, rules, documents and jobs.
package changekind

// Kind is the kind of a change.
type Kind string

// The kinds of changes to queues and rules. Changes of jobs have a count.
const (
	Created    Kind = "created"
	Changed    Kind = "changed"
	Deleted    Kind = "deleted"
	RolledBack Kind = "rolled_back"
	Paused     Kind = "paused"
	Resumed    Kind = "resumed"
	Reset      Kind = "reset"    // the tallies of a rule were cleared
	Imported   Kind = "imported" // jobs were imported from an archive

	Purged    Kind = "purged"
	Cancelled Kind = "cancelled"
	Replayed  Kind = "replayed"
	Forgotten Kind = "forgotten"
	Decided   Kind = "decided" // about held jobs
)

// Kinds has all kinds.
var Kinds = []Kind{
	Created, Changed, Deleted, RolledBack, Paused, Resumed, Reset, Imported,
	Purged, Cancelled, Replayed, Forgotten, Decided,
}

// Refused marks a refused request in the audit log that stands for no kind of change.
const Refused Kind = "refused"

// Refunded marks takes that were given back to a rule in the audit log.
const Refunded Kind = "refunded"

// OfSpecs reports whether the change created, changed or deleted a spec or rule.
func (k Kind) OfSpecs() bool {
	return k == Created || k == Changed || k == Deleted || k == RolledBack
}

// OfJobs reports whether the change concerns jobs. Its steps count as one change.
func (k Kind) OfJobs() bool {
	return k == Purged || k == Cancelled || k == Replayed || k == Forgotten || k == Decided
}
