package queue

import "fmt"

// AuditVerifier verifies the audit log of a partition: that no entry was changed, removed, put in between or moved
// since it was written. It takes the records in order, oldest first, in as many pieces as the caller likes. Without a
// Number it begins with whatever entry is the first that it is given: those before it may have been dropped for their
// age.
//
// Whoever can write to the store can write another chain in place of it. So keep Number and Digest elsewhere: a chain
// that was begun behind them, and verifies, is the one that they are from.
type AuditVerifier struct {
	// Partition is whose log it is: an entry of another one does not belong there.
	Partition int
	// Number and Digest are those of the last entry that was verified, 0 and empty before the first.
	Number int64
	Digest Digest
}

// AuditFault is what is wrong with an audit log.
type AuditFault string

// The faults.
const (
	AuditUnreadable AuditFault = "unreadable" // the text is not an entry
	AuditChanged    AuditFault = "changed"    // the text, or what was before or after, is not what its digest is of
	AuditForeign    AuditFault = "foreign"    // it is of another partition
	AuditMissing    AuditFault = "missing"    // entries before it are not there
	AuditMisplaced  AuditFault = "misplaced"  // its number was there before: it was put in between, or moved
	AuditUnlinked   AuditFault = "unlinked"   // it does not name the digest of the one before: one of the two was replaced
	AuditCut        AuditFault = "cut"        // the newest entries are not there
)

// AuditBreak is the first thing that is wrong with an audit log.
type AuditBreak struct {
	Fault AuditFault
	// Number is that of the entry at which it shows, as it should be.
	Number int64
	Detail string
}

func (b *AuditBreak) Error() string {
	return fmt.Sprintf("the audit log breaks at entry %d: %s: %s", b.Number, b.Fault, b.Detail)
}

// Add verifies the records that follow those before. Its error is an *AuditBreak; the verifier then stands at the last
// entry before that.
func (v *AuditVerifier) Add(records []AuditRecord) error {
	for i := range records {
		if b := v.add(&records[i]); b != nil {
			return b
		}
	}
	return nil
}

func (v *AuditVerifier) add(r *AuditRecord) *AuditBreak {
	next := v.Number + 1
	broken := func(f AuditFault, format string, args ...any) *AuditBreak {
		return &AuditBreak{Fault: f, Number: next, Detail: fmt.Sprintf(format, args...)}
	}
	e, err := r.Entry()
	if err != nil || e.Number < 1 {
		return broken(AuditUnreadable, "its text is no entry")
	}
	first := v.Number == 0
	if first {
		next = e.Number
	}
	switch {
	case e.Partition != v.Partition:
		return broken(AuditForeign, "it is an entry of partition %d, in the log of partition %d", e.Partition, v.Partition)
	case e.Number > next:
		return broken(AuditMissing, "entry %d follows entry %d: what was between is gone", e.Number, v.Number)
	case e.Number < next:
		return broken(AuditMisplaced, "entry %d follows entry %d: it was put there or moved", e.Number, v.Number)
	case DigestOf(r.Text) != r.Digest:
		return broken(AuditChanged, "its text was changed: it has another digest than it had")
	case !e.tells(AuditBefore, r.Before, e.Before):
		return broken(AuditChanged, "what it has as before was changed: its text names another digest")
	case !e.tells(AuditAfter, r.After, e.After):
		return broken(AuditChanged, "what it has as after was changed: its text names another digest")
	case first && e.Number > 1 && e.Previous == "":
		return broken(AuditUnlinked, "it names none before it")
	case first && e.Number == 1 && e.Previous != "":
		return broken(AuditUnlinked, "it is the first, and names one before it")
	case !first && e.Previous != string(v.Digest):
		return broken(AuditUnlinked, "it names another entry before it than entry %d: one of them was changed or put there", v.Number)
	}
	v.Number, v.Digest = e.Number, r.Digest
	return nil
}

// End verifies that all was there up to the newest entry, as a page that was read before tells it. The log may have
// grown since. Its error is an *AuditBreak.
func (v *AuditVerifier) End(newest int64, head Digest) error {
	switch {
	case v.Number < newest:
		return &AuditBreak{
			Fault: AuditCut, Number: v.Number + 1, Detail: fmt.Sprintf("the newest entry is %d", newest),
		}
	case v.Number == newest && v.Digest != head:
		return &AuditBreak{Fault: AuditUnlinked, Number: newest, Detail: "the head of the chain is another"}
	}
	return nil
}
