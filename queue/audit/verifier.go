package audit

import (
	"fmt"
	"maps"
	"slices"
)

// Verifier verifies the audit log of a partition: that no entry was changed, removed, inserted or moved since it was
// written. Add takes the records in order, oldest first, in pieces of any size. A chain without a Link starts with the
// first entry given: earlier entries may have been dropped.
//
// An attacker with write access to the store can replace whole chains. So keep Links elsewhere: a chain that starts
// behind a Link and verifies is the original one.
type Verifier struct {
	// Partition is the partition of the log. Entries of other partitions do not belong there.
	Partition int
	// Number is the number of the last entry verified, 0 before the first.
	Number int64
	// Links has the last entry verified of each budget.
	Links map[Budget]Link
}

// Link identifies an entry that another one follows.
type Link struct {
	Number int64
	Digest Digest
}

// Fault is a kind of damage to an audit log.
type Fault string

// The faults.
const (
	Unreadable Fault = "unreadable" // the text is not an entry
	Changed    Fault = "changed"    // the digest does not match the text, Before or After
	Foreign    Fault = "foreign"    // the entry belongs to another partition or budget
	Missing    Fault = "missing"    // entries before it are missing
	Misplaced  Fault = "misplaced"  // the entry was inserted or moved
	Unlinked   Fault = "unlinked"   // it has the wrong digest of the previous entry: one of the two was replaced
	Cut        Fault = "cut"        // the newest entries are missing
)

// Break is the first fault found in an audit log.
type Break struct {
	Fault Fault
	// Number is the number of the entry at which the fault shows.
	Number int64
	Detail string
}

func (b *Break) Error() string {
	return fmt.Sprintf("the audit log breaks at entry %d: %s: %s", b.Number, b.Fault, b.Detail)
}

// matches reports whether a text has the digest that the entry names, or is left out.
func matches(e *Entry, side string, text []byte, digest Digest) bool {
	if slices.Contains(e.LeftOut, side) {
		return text == nil && digest != ""
	}
	return DigestOf(text) == digest
}

// Add verifies the records that follow the earlier ones. Its error is a *Break; the verifier then stays at the last
// good entry.
func (v *Verifier) Add(records []Record) error {
	for i := range records {
		if b := v.add(&records[i]); b != nil {
			return b
		}
	}
	return nil
}

func (v *Verifier) add(r *Record) *Break {
	e, err := r.Entry()
	broken := func(f Fault, format string, args ...any) *Break {
		return &Break{Fault: f, Number: e.Number, Detail: fmt.Sprintf(format, args...)}
	}
	if err != nil || e.Number < 1 {
		e.Number = v.Number + 1
		return broken(Unreadable, "its text is not an entry")
	}
	last, behind := v.Links[e.Budget]
	switch {
	case e.Partition != v.Partition:
		return broken(Foreign, "it is an entry of partition %d, in the log of partition %d", e.Partition, v.Partition)
	case e.Budget != BudgetOf(&e.Actor, e.Refused):
		return broken(Foreign, "it is in the budget %q, but its actor belongs to another", e.Budget)
	case e.Number <= v.Number:
		return broken(Misplaced, "it comes after entry %d: it was inserted or moved", v.Number)
	case e.Follows >= e.Number || behind && e.Follows < last.Number:
		return broken(Misplaced, "it follows entry %d, but comes after entry %d: it was inserted or moved",
			e.Follows, last.Number)
	case behind && e.Follows > last.Number:
		return broken(Missing, "it follows entry %d, but comes after entry %d: entries between them are gone",
			e.Follows, last.Number)
	case DigestOf(r.Text) != r.Digest:
		return broken(Changed, "its text was changed: the digest does not match")
	case !matches(&e, Before, r.Before, e.Before):
		return broken(Changed, "its before was changed: the digest does not match")
	case !matches(&e, After, r.After, e.After):
		return broken(Changed, "its after was changed: the digest does not match")
	case (e.Follows == 0) != (e.Previous == ""):
		return broken(Unlinked, "it follows entry %d, but names the digest %q", e.Follows, e.Previous)
	case behind && e.Previous != string(last.Digest):
		return broken(Unlinked,
			"its digest of entry %d does not match: one of the two was changed or inserted", last.Number)
	}
	if v.Links == nil {
		v.Links = map[Budget]Link{}
	}
	v.Number, v.Links[e.Budget] = e.Number, Link{e.Number, r.Digest}
	return nil
}

// End verifies that the log reaches the newest entries of a page read earlier. The log may have grown since. Its error
// is a *Break.
func (v *Verifier) End(chains []Chain) error {
	for i := range chains {
		c := &chains[i]
		switch last := v.Links[c.Budget]; {
		case last.Number < c.Newest:
			return &Break{Cut, c.Newest, fmt.Sprintf("the newest entry of %s is missing", c.Budget)}
		case last.Number == c.Newest && last.Digest != c.Head:
			return &Break{Unlinked, c.Newest, fmt.Sprintf("the newest entry of %s has another digest", c.Budget)}
		}
	}
	return nil
}

// Clone returns a copy of the verifier.
func (v *Verifier) Clone() Verifier {
	c := *v
	c.Links = maps.Clone(v.Links)
	return c
}
