package machine

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/internal/changelog"
)

// The log of a deleted subject is kept until some instant. The table has an entry by instant and one by subject;
// its sequence is their number.

func deletedKey(s subject) []byte { return append([]byte{'n'}, s.key()...) }

func deletedUntilKey(s subject, until leaky.Instant) []byte {
	return append(append([]byte{'t'}, key(uint64(until))...), s.key()...)
}

// deletedUntil returns until when the log of a deleted subject is kept.
func (t *tables) deletedUntil(s subject) (until leaky.Instant, buried bool) {
	v := t.Table(deletedTable).Get(deletedKey(s))
	if len(v) != 8 {
		return 0, false
	}
	return leaky.Instant(binary.BigEndian.Uint64(v)), true
}

// markDeleted keeps the log of a deleted subject until an instant, and drops some that are due or too many.
func (t *tables) markDeleted(s subject, until, now leaky.Instant) error {
	b := t.Table(deletedTable)
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
	for range 2 { // each call adds one, so this keeps up
		k, _ := b.Cursor().Seek([]byte{'t'})
		if len(k) < 9 || k[0] != 't' {
			return nil
		}
		if until := leaky.Instant(binary.BigEndian.Uint64(k[1:])); until > now &&
			b.Sequence() <= changelog.MaxDeletedNames {
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

// unmarkDeleted takes a subject out of the deleted ones.
func (t *tables) unmarkDeleted(s subject) error {
	until, buried := t.deletedUntil(s)
	if !buried {
		return nil
	}
	b := t.Table(deletedTable)
	if err := dropKeys(b, [][]byte{deletedKey(s), deletedUntilKey(s, until)}); err != nil {
		return err
	}
	return b.SetSequence(b.Sequence() - 1)
}

// recreate is for a subject that is made: the log of a deleted one of that name goes on, unless its time has come.
func (t *tables) recreate(s subject, now leaky.Instant) error {
	until, buried := t.deletedUntil(s)
	if buried && until <= now {
		return t.forgetLog(s)
	}
	return t.unmarkDeleted(s)
}

// forgetLog drops the whole log of a deleted subject.
func (t *tables) forgetLog(s subject) error {
	prefix := s.key()
	for _, table := range [][]byte{changesTable, versionsTable} {
		b := t.Table(table)
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
