package queue

import (
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/rules"
)

// Subject is what kind of thing a record of changes is about. A queue and a rule of one name have one each.
type Subject string

// The subjects.
const (
	OfQueue Subject = "queue"
	OfRule  Subject = "rule"
)

// Bounds of a record. Each name has its own, so that no other name's changes push out its entries.
const (
	// KeepChanges is how long changes are kept, unless the store was told otherwise. Of a queue or a rule that was
	// deleted all is kept for so long after that, and then goes at once, with the specs.
	KeepChanges    = 400 * 24 * time.Hour
	MinKeepChanges = time.Hour
	MaxKeepChanges = 10 * 365 * 24 * time.Hour
	// MaxChanges is the longest page of changes.
	MaxChanges = 100
	// MaxChangeIDs is how many jobs a change names; it counts all.
	MaxChangeIDs = 10
	// OneChange is how soon after its last step a change of jobs goes on with the next: a purge of a million jobs is
	// one change, and not two thousand.
	OneChange = time.Minute
)

// Change is what was done to a queue or a rule, as its engine recorded it in the same step.
type Change struct {
	// Number counts the changes of a name from 1, and leaves none out: what is missing was dropped.
	Number int64
	At     time.Time // by the engine's clock
	// Last is when the last of its steps was made, of a change of jobs that took several; else At.
	Last time.Time
	// By is who did it, as was proven: the Name of the Actor. It is empty where nobody was asked, and of what the engine
	// did by itself.
	By string
	// Note is who the caller said that he is, which nothing verifies.
	Note string
	What changekind.Kind
	// Revision is that after the change, or the last one of what was deleted. Was is the one before it, 0 if there
	// was none.
	Revision, Was int64
	// Before and After are the specs of a queue, when they were changed: Before is nil of a queue that was made,
	// After of one that was deleted, and either if it is no longer among those that are kept.
	Before, After *Spec
	// RuleBefore and RuleAfter are the same of a rule, without its overrides.
	RuleBefore, RuleAfter *rules.Rule
	// Jobs is how many jobs it was done to, and IDs are the first of them, of those that were named one by one.
	Jobs int64
	IDs  []string
	// Detail says more, in words: of a purge in which state the jobs were, of a decision what they became, of an import
	// which file it was.
	Detail string
	// Reason and Until are those of a pause, Reason that of a decision too. A resume that came by itself has a reason.
	Reason string
	Until  time.Time
}

// Continue adds a change to c if that goes on with it, and reports whether it did.
func (c *Change) Continue(next *Change) bool {
	same := c.What == next.What && c.By == next.By && c.Note == next.Note && c.Revision == next.Revision &&
		c.Detail == next.Detail && c.Reason == next.Reason
	if !same || !c.What.OfJobs() || next.At.Sub(c.Last) >= OneChange {
		return false
	}
	c.Jobs, c.Last = c.Jobs+next.Jobs, next.At
	c.IDs = append(slices.Clone(c.IDs), next.IDs...)
	c.IDs = c.IDs[:min(len(c.IDs), MaxChangeIDs)]
	return true
}

// ChangesRequest asks for changes of a name, newest first.
type ChangesRequest struct {
	Subject Subject
	Name    string
	// Before is the Next of the page before: changes of lower numbers. 0 begins with the newest.
	Before int64
	Limit  int               // 1 to MaxChanges
	What   []changekind.Kind // only these; none is all
	// Since and Until bound At, Since inclusive and Until not; zero is no bound.
	Since, Until time.Time
}

// ChangesPage is some of a record.
type ChangesPage struct {
	Changes []Change
	// Next goes into the next request; 0 when there is nothing more. A page may have fewer than asked for, or none.
	Next int64
	// Dropped is how many changes of the name were dropped before their time, for want of room.
	Dropped int64
}

// Validate checks all but the name. Its error is an *invalid.Error.
func (r *ChangesRequest) Validate() error {
	if r.Subject != OfQueue && r.Subject != OfRule {
		return invalid.Errorf("subject", string(r.Subject), "must be queue or rule")
	}
	if r.Before < 0 {
		return invalid.Errorf("before", fmt.Sprint(r.Before), "must not be negative; leave it out to begin with the newest")
	}
	for i, k := range r.What {
		if !slices.Contains(changekind.Kinds, k) {
			return invalid.Errorf(
				fmt.Sprintf("what.%d", i), string(k), "is not done to queues or rules; one of %v", changekind.Kinds,
			)
		}
	}
	return invalid.Range("limit", int64(r.Limit), 1, MaxChanges)
}

// wants reports whether the request is for a change.
func (r *ChangesRequest) wants(c *Change) bool {
	return (len(r.What) == 0 || slices.Contains(r.What, c.What)) &&
		(r.Since.IsZero() || !c.At.Before(r.Since)) && (r.Until.IsZero() || c.At.Before(r.Until))
}

// changesLooked is how many entries a page looks at, whatever it finds.
const changesLooked = 1000

// Page makes the answer out of what read returns: up to n entries of lower numbers than before, 0 being all, newest
// first. It is for engines.
func (r *ChangesRequest) Page(read func(before int64, n int) ([]Change, error)) (p ChangesPage, err error) {
	before := r.Before
	for looked := 0; looked < changesLooked; {
		some, err := read(before, MaxChanges)
		if err != nil {
			return p, err
		}
		for i := range some {
			before = some[i].Number
			if r.wants(&some[i]) {
				p.Changes = append(p.Changes, some[i])
			}
			if len(p.Changes) == r.Limit {
				break
			}
		}
		looked += len(some)
		switch {
		case len(p.Changes) == r.Limit && before > 1:
			p.Next = before
			return p, nil
		case len(some) < MaxChanges, len(p.Changes) == r.Limit:
			return p, nil
		}
	}
	p.Next = before
	return p, nil
}

// ValidateKeepChanges checks how long changes are to be kept; 0 is KeepChanges. Its error is an *invalid.Error.
func ValidateKeepChanges(d time.Duration) error {
	if d != 0 && (d < MinKeepChanges || d > MaxKeepChanges) {
		return invalid.Errorf("keep_changes", d.String(), "must be from %v to %v", MinKeepChanges, MaxKeepChanges)
	}
	return nil
}

// Detail is what is recorded of a purge beside the number of jobs.
func (r *PurgeRequest) Detail() string {
	if r.Lane != nil {
		return r.State.String() + ", of one lane"
	}
	return r.State.String()
}

// Decides is what a held job becomes by a decision.
func (v Verdict) Decides() State {
	switch v {
	case Deliver:
		return Delivered
	case Bury:
		return Dead
	}
	return Waiting
}
