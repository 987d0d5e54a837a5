package queue

import (
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/rules"
)

// Subject is the kind of thing that changes concern. A queue and a rule of the same name have separate change logs.
type Subject string

// The subjects.
const (
	OfQueue Subject = "queue"
	OfRule  Subject = "rule"
)

// Bounds of a change log. Each name has its own, so changes of one name never push out those of another.
const (
	// KeepChanges is how long changes are kept by default. The log of a deleted queue or rule is kept that long after
	// its deletion, and then dropped at once, together with the specs.
	KeepChanges    = 400 * 24 * time.Hour
	MinKeepChanges = time.Hour
	MaxKeepChanges = 10 * 365 * 24 * time.Hour
	// MaxChanges is the maximum length of a page of changes.
	MaxChanges = 100
	// MaxChangeIDs is the maximum number of jobs a change names; it counts all of them.
	MaxChangeIDs = 10
	// OneChange is how soon after its last step a change of jobs must continue to count as one change. A purge of a
	// million jobs is one change, not two thousand.
	OneChange = time.Minute
)

// Change is a change to a queue or rule, as the engine recorded it in the same step.
type Change struct {
	// Number counts the changes of a name from 1 without gaps; missing numbers were dropped.
	Number int64
	At     time.Time // by the engine's clock
	// Last is the time of the last step if a change of jobs took several; else At.
	Last time.Time
	// By is the proven Name of the Actor. It is empty if authentication is off, and for changes by the engine itself.
	By string
	// Note is the name the caller claimed, unverified.
	Note string
	What changekind.Kind
	// Revision is the revision after the change, or the last revision of a deleted name. Was is the revision before
	// it, or 0.
	Revision, Was int64
	// Before and After are a queue's specs around a change of its spec. Before is nil for a new queue, After for a
	// deleted one, and either is nil if the spec is no longer kept.
	Before, After *Spec
	// RuleBefore and RuleAfter are the same for a rule, without its overrides.
	RuleBefore, RuleAfter *rules.Rule
	// Jobs is how many jobs were changed. IDs has the first of them, if the caller named them one by one.
	Jobs int64
	IDs  []string
	// Detail adds details in words: for a purge the state of the jobs, for a decision their new state, for an import
	// the file.
	Detail string
	// Reason and Until belong to a pause. A decision has a reason, too, and so does an automatic resume.
	Reason string
	Until  time.Time
}

// Continue merges next into c if it is a further step of the same change, and reports whether it was.
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

// ChangesRequest asks for changes of one name, newest first.
type ChangesRequest struct {
	Subject Subject
	Name    string
	// Before is the Next of the previous page: only changes with lower numbers. 0 starts with the newest.
	Before int64
	Limit  int               // 1 to MaxChanges
	What   []changekind.Kind // only these kinds; empty means all
	// Since (inclusive) and Until (exclusive) bound At; zero is no bound.
	Since, Until time.Time
}

// ChangesPage is a page of changes.
type ChangesPage struct {
	Changes []Change
	// Next goes into the next request; 0 means that there are no more. A page may have fewer changes than requested.
	Next int64
	// Dropped is how many changes of the name were dropped early for lack of room.
	Dropped int64
}

// Validate checks everything but the name. Its error is an *invalid.Error.
func (r *ChangesRequest) Validate() error {
	if r.Subject != OfQueue && r.Subject != OfRule {
		return invalid.Errorf("subject", string(r.Subject), "must be queue or rule")
	}
	if r.Before < 0 {
		return invalid.Errorf("before", fmt.Sprint(r.Before), "must not be negative; leave it out to start with the newest")
	}
	for i, k := range r.What {
		if !slices.Contains(changekind.Kinds, k) {
			return invalid.Errorf(
				fmt.Sprintf("what.%d", i), string(k), "is not a change of queues or rules; use one of %v", changekind.Kinds,
			)
		}
	}
	return invalid.Range("limit", int64(r.Limit), 1, MaxChanges)
}

// wants reports whether the request asks for the change.
func (r *ChangesRequest) wants(c *Change) bool {
	return (len(r.What) == 0 || slices.Contains(r.What, c.What)) &&
		(r.Since.IsZero() || !c.At.Before(r.Since)) && (r.Until.IsZero() || c.At.Before(r.Until))
}

// changesLooked is the maximum number of entries one page looks at, however many match.
const changesLooked = 1000

// Page builds the answer from read, which returns up to n entries with lower numbers than before (0: all), newest
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

// ValidateKeepChanges checks how long changes are to be kept; 0 means KeepChanges. Its error is an *invalid.Error.
func ValidateKeepChanges(d time.Duration) error {
	if d != 0 && (d < MinKeepChanges || d > MaxKeepChanges) {
		return invalid.Errorf("keep_changes", d.String(), "must be from %v to %v", MinKeepChanges, MaxKeepChanges)
	}
	return nil
}

// Detail returns the detail of a purge in the change log.
func (r *PurgeRequest) Detail() string {
	if r.Lane != nil {
		return r.State.String() + ", of one lane"
	}
	return r.State.String()
}

// Decides returns the state of a held job after a decision.
func (v Verdict) Decides() State {
	switch v {
	case Deliver:
		return Delivered
	case Bury:
		return Dead
	}
	return Waiting
}
