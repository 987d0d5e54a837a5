package boltq

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// What was recorded of a subject that was deleted is kept until an instant. The table has it twice: by the instant,
// and by the subject; how many there are is the table's sequence.

func deletedKey(s subject) []byte { return append([]byte{'n'}, s.key()...) }

func deletedUntilKey(s subject, until leaky.Instant) []byte {
	return append(append([]byte{'t'}, key(uint64(until))...), s.key()...)
}

// deletedUntil returns until when what is recorded of a deleted subject is kept.
func (t *tables) deletedUntil(s subject) (until leaky.Instant, buried bool) {
	v := t.tx.Bucket(deletedTable).Get(deletedKey(s))
	if len(v) != 8 {
		return 0, false
	}
	return leaky.Instant(binary.BigEndian.Uint64(v)), true
}

// markDeleted keeps what is recorded of a deleted subject until an instant, and drops that of some whose time has
// come, or that are too many.
func (t *tables) markDeleted(s subject, until, now leaky.Instant) error {
	b := t.tx.Bucket(deletedTable)
	if err := t.unmarkDeleted(s); err != nil {
		return err
	}
	if err := b.Put(deletedUntilKey(s, until), nil); err != nil {
		return err
	}
	if err := b.Put(deletedKey(s), key(uint64(until))); err != nil {
		return err
	}
	if err := b.SetSequence(b.Sequence() + 1); err != nil {
		return err
	}
	for range 2 { // one comes with each call
		k, _ := b.Cursor().Seek([]byte{'t'})
		if len(k) < 9 || k[0] != 't' {
			return nil
		}
		if until := leaky.Instant(binary.BigEndian.Uint64(k[1:])); until > now &&
			b.Sequence() <= queue.MaxDeletedNames {
			return nil
		}
		of, name, _ := bytes.Cut(k[9:], []byte{0})
		gone := subject{queue.Subject(of), string(bytes.TrimSuffix(name, []byte{0}))}
		if err := t.forgetLog(gone); err != nil {
			return err
		}
	}
	return nil
}

// unmarkDeleted takes a subject out of those that were deleted.
func (t *tables) unmarkDeleted(s subject) error {
	until, buried := t.deletedUntil(s)
	if !buried {
		return nil
	}
	b := t.tx.Bucket(deletedTable)
	if err := dropKeys(b, [][]byte{deletedKey(s), deletedUntilKey(s, until)}); err != nil {
		return err
	}
	return b.SetSequence(b.Sequence() - 1)
}

// recreate is for a subject that is made: what was kept of one that was deleted goes on, if its time has not come.
func (t *tables) recreate(s subject, now leaky.Instant) error {
	until, buried := t.deletedUntil(s)
	if buried && until <= now {
		return t.forgetLog(s)
	}
	return t.unmarkDeleted(s)
}

// forgetLog drops all that is recorded of a deleted subject.
func (t *tables) forgetLog(s subject) error {
	prefix := s.key()
	for _, table := range [][]byte{changesTable, documentsTable} {
		b := t.tx.Bucket(table)
		var all [][]byte
		c := b.Cursor()
		for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
			all = append(all, bytes.Clone(k))
		}
		if err := dropKeys(b, all); err != nil {
			return err
		}
	}
	return t.unmarkDeleted(s)
}

func errChangeLog(s subject) error {
	return fmt.Errorf("%w: the record of changes of %s %s", queue.ErrCorrupt, s.of, s.name)
}
