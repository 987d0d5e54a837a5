package audit

import (
	"fmt"
	"maps"
	"slices"
)

// Verifier verifies the audit log of a partition: that no entry was changed, removed, put in between or moved
// since it was written. It takes the records in order, oldest first, in as many pieces as the caller likes. The chain
// of a budget that has no Link begins with whatever entry is the first that it is given: those before it may have been
// dropped.
//
// Whoever can write to the store can write other chains in place of these. So keep the Links elsewhere: chains that
// were begun behind them, and verify, are the ones that they are from.
type Verifier struct {
	// Partition is whose log it is: an entry of another one does not belong there.
	Partition int
	// Number is that of the last entry that was verified, 0 before the first.
	Number int64
	// Links has the last entry that was verified of each budget.
	Links map[Budget]Link
}

// Link is an entry that another one follows.
type Link struct {
	Number int64
	Digest Digest
}

// Fault is what is wrong with an audit log.
type Fault string

// The faults.
const (
	Unreadable Fault = "unreadable" // the text is not an entry
	Changed    Fault = "changed"    // the text, or what was before or after, is not what its digest is of
	Foreign    Fault = "foreign"    // it is of another partition, or its budget is not its actor's
	Missing    Fault = "missing"    // entries before it are not there
	Misplaced  Fault = "misplaced"  // it was put in between, or moved
	Unlinked   Fault = "unlinked"   // it does not name the digest of the one before: one of the two was replaced
	Cut        Fault = "cut"        // the newest entries are not there
)

// Break is the first thing that is wrong with an audit log.
type Break struct {
	Fault Fault
	// Number is that of the entry at which it shows.
	Number int64
	Detail string
}

func (b *Break) Error() string {
	return fmt.Sprintf("the audit log breaks at entry %d: %s: %s", b.Number, b.Fault, b.Detail)
}

// tells reports whether text is the one that the entry has a digest of, or is left out.
func tells(e *Entry, side string, text []byte, digest Digest) bool {
	if slices.Contains(e.LeftOut, side) {
		return text == nil && digest != ""
	}
	return DigestOf(text) == digest
}

// Add verifies the records that follow those before. Its error is a *Break; the verifier then stands at the last
// entry before that.
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
		return broken(Unreadable, "its text is no entry")
	}
	last, behind := v.Links[e.Budget]
	switch {
	case e.Partition != v.Partition:
		return broken(Foreign, "it is an entry of partition %d, in the log of partition %d", e.Partition, v.Partition)
	case e.Budget != BudgetOf(&e.Actor, e.Refused):
		return broken(Foreign, "it is in the budget %q, and its actor has another", e.Budget)
	case e.Number <= v.Number:
		return broken(Misplaced, "it stands behind entry %d: it was put there or moved", v.Number)
	case e.Follows >= e.Number || behind && e.Follows < last.Number:
		return broken(Misplaced, "it follows entry %d, and stands behind entry %d: it was put there or moved",
			e.Follows, last.Number)
	case behind && e.Follows > last.Number:
		return broken(Missing, "it follows entry %d, and stands behind entry %d: what was between is gone",
			e.Follows, last.Number)
	case DigestOf(r.Text) != r.Digest:
		return broken(Changed, "its text was changed: it has another digest than it had")
	case !tells(&e, Before, r.Before, e.Before):
		return broken(Changed, "what it has as before was changed: its text names another digest")
	case !tells(&e, After, r.After, e.After):
		return broken(Changed, "what it has as after was changed: its text names another digest")
	case (e.Follows == 0) != (e.Previous == ""):
		return broken(Unlinked, "it follows entry %d, and names the digest %q", e.Follows, e.Previous)
	case behind && e.Previous != string(last.Digest):
		return broken(Unlinked,
			"it names another entry before it than entry %d: one of them was changed or put there", last.Number)
	}
	if v.Links == nil {
		v.Links = map[Budget]Link{}
	}
	v.Number, v.Links[e.Budget] = e.Number, Link{e.Number, r.Digest}
	return nil
}

// End verifies that all was there up to the newest entries, as a page that was read before tells them. The log may have
// grown since. Its error is a *Break.
func (v *Verifier) End(chains []Chain) error {
	for i := range chains {
		c := &chains[i]
		switch last := v.Links[c.Budget]; {
		case last.Number < c.Newest:
			return &Break{Cut, c.Newest, fmt.Sprintf("it is the newest of %s, and is not there", c.Budget)}
		case last.Number == c.Newest && last.Digest != c.Head:
			return &Break{Unlinked, c.Newest, fmt.Sprintf("it is the newest of %s, and should have another digest", c.Budget)}
		}
	}
	return nil
}

// Clone returns a verifier that goes on from where this one stands.
func (v *Verifier) Clone() Verifier {
	c := *v
	c.Links = maps.Clone(v.Links)
	return c
}
