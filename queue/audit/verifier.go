package audit

import (
	"fmt"
	"slices"
)

// Verifier verifies the audit log of a partition: that no entry was changed, removed, put in between or moved
// since it was written. It takes the records in order, oldest first, in as many pieces as the caller likes. Without a
// Number it begins with whatever entry is the first that it is given: those before it may have been dropped for their
// age.
//
// Whoever can write to the store can write another chain in place of it. So keep Number and Digest elsewhere: a chain
// that was begun behind them, and verifies, is the one that they are from.
type Verifier struct {
	// Partition is whose log it is: an entry of another one does not belong there.
	Partition int
	// Number and Digest are those of the last entry that was verified, 0 and empty before the first.
	Number int64
	Digest Digest
}

// Fault is what is wrong with an audit log.
type Fault string

// The faults.
const (
	Unreadable Fault = "unreadable" // the text is not an entry
	Changed    Fault = "changed"    // the text, or what was before or after, is not what its digest is of
	Foreign    Fault = "foreign"    // it is of another partition
	Missing    Fault = "missing"    // entries before it are not there
	Misplaced  Fault = "misplaced"  // its number was there before: it was put in between, or moved
	Unlinked   Fault = "unlinked"   // it does not name the digest of the one before: one of the two was replaced
	Cut        Fault = "cut"        // the newest entries are not there
)

// Break is the first thing that is wrong with an audit log.
type Break struct {
	Fault Fault
	// Number is that of the entry at which it shows, as it should be.
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
	next := v.Number + 1
	broken := func(f Fault, format string, args ...any) *Break {
		return &Break{Fault: f, Number: next, Detail: fmt.Sprintf(format, args...)}
	}
	e, err := r.Entry()
	if err != nil || e.Number < 1 {
		return broken(Unreadable, "its text is no entry")
	}
	first := v.Number == 0
	if first {
		next = e.Number
	}
	switch {
	case e.Partition != v.Partition:
		return broken(Foreign, "it is an entry of partition %d, in the log of partition %d", e.Partition, v.Partition)
	case e.Number > next:
		return broken(Missing, "entry %d follows entry %d: what was between is gone", e.Number, v.Number)
	case e.Number < next:
		return broken(Misplaced, "entry %d follows entry %d: it was put there or moved", e.Number, v.Number)
	case DigestOf(r.Text) != r.Digest:
		return broken(Changed, "its text was changed: it has another digest than it had")
	case !tells(&e, Before, r.Before, e.Before):
		return broken(Changed, "what it has as before was changed: its text names another digest")
	case !tells(&e, After, r.After, e.After):
		return broken(Changed, "what it has as after was changed: its text names another digest")
	case first && e.Number > 1 && e.Previous == "":
		return broken(Unlinked, "it names none before it")
	case first && e.Number == 1 && e.Previous != "":
		return broken(Unlinked, "it is the first, and names one before it")
	case !first && e.Previous != string(v.Digest):
		return broken(
			Unlinked, "it names another entry before it than entry %d: one of them was changed or put there", v.Number,
		)
	}
	v.Number, v.Digest = e.Number, r.Digest
	return nil
}

// End verifies that all was there up to the newest entry, as a page that was read before tells it. The log may have
// grown since. Its error is a *Break.
func (v *Verifier) End(newest int64, head Digest) error {
	switch {
	case v.Number < newest:
		return &Break{
			Fault: Cut, Number: v.Number + 1, Detail: fmt.Sprintf("it is not there, and the newest should be %d", newest),
		}
	case v.Number == newest && v.Digest != head:
		return &Break{Fault: Unlinked, Number: newest, Detail: "it is the newest, and should have another digest"}
	}
	return nil
}
