// Package changekind has the kinds of changes that a store records: what was done to a queue, a rule or a document.
package changekind

// Kind is what was done.
type Kind string

// The kinds of changes to queues and rules. Those of jobs have a count.
const (
	Created    Kind = "created"
	Changed    Kind = "changed"
	Deleted    Kind = "deleted"
	RolledBack Kind = "rolled_back"
	Paused     Kind = "paused"
	Resumed    Kind = "resumed"
	Reset      Kind = "reset"    // of a rule: what was taken under all keys was forgotten
	Imported   Kind = "imported" // jobs of an archive were put in

	Purged    Kind = "purged"
	Cancelled Kind = "cancelled"
	Replayed  Kind = "replayed"
	Forgotten Kind = "forgotten"
	Decided   Kind = "decided" // about held jobs
)

// Kinds are all of them.
var Kinds = []Kind{
	Created, Changed, Deleted, RolledBack, Paused, Resumed, Reset, Imported,
	Purged, Cancelled, Replayed, Forgotten, Decided,
}

// Refused is what the audit log has of a request that was refused and stands for no kind of change.
const Refused Kind = "refused"

// Refunded is what the audit log has of a rule whose takes were given back.
const Refunded Kind = "refunded"

// OfSpecs reports whether a spec or a rule was put or deleted.
func (k Kind) OfSpecs() bool {
	return k == Created || k == Changed || k == Deleted || k == RolledBack
}

// OfJobs reports whether it is done to jobs, some at a time.
func (k Kind) OfJobs() bool {
	return k == Purged || k == Cancelled || k == Replayed || k == Forgotten || k == Decided
}
