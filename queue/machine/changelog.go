package machine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/internal/changelog"
)

// The log of changes is append-only, one per queue and rule, next to the latest versions of each. It interprets
// neither. Only the newest entry is ever rewritten: see queue.OneChange.

type subject struct {
	of   queue.Subject
	name string
}

// key returns the prefix of all keys of a subject. Names contain no zero byte.
func (s subject) key() []byte { return append(append(append([]byte(s.of), 0), s.name...), 0) }

func queueSubject(name string) subject { return subject{queue.OfQueue, name} }
func ruleSubject(name string) subject  { return subject{queue.OfRule, name} }

// logged is a change to be logged, and its actor.
type logged struct {
	queue.Change
	actor audit.Actor
	// before and after are the specs before and after a change of specs.
	before, after []byte
	// unaudited is set if the audit log has no entry for this change alone: the engine made it by itself, or an entry
	// about many queues covers it.
	unaudited bool
}

// logUpdate is what a commit logs about a subject.
type logUpdate struct {
	subject
	changes  []logged // oldest first
	revision int64    // of the version
	version  []byte   // nil if unchanged
	created  bool     // continue the log of a deleted subject of that name
	gone     bool     // it is deleted, now or earlier
}

func (c *Commit) logChange(u logUpdate) {
	c.logUpdates = append(c.logUpdates, u)
	for i := range u.changes {
		if !u.changes[i].unaudited {
			c.audited = append(c.audited, u.changes[i].audited(u.subject))
		}
	}
}

// entryHead is stored before each change.
type entryHead struct {
	bytes   uint64 // of all entries ever written, including this one
	number  uint64
	dropped uint64 // earlier entries that were dropped to make room
	last    leaky.Instant
}

const entryHeadBytes = 4 * 8

func (h *entryHead) put(text []byte) []byte {
	b := make([]byte, 0, entryHeadBytes+len(text))
	for _, n := range []uint64{h.bytes, h.number, h.dropped, uint64(h.last)} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return append(b, text...)
}

func readHead(v []byte) (h entryHead, ok bool) {
	if len(v) < entryHeadBytes {
		return h, false
	}
	at := func(i int) uint64 { return binary.BigEndian.Uint64(v[8*i:]) }
	return entryHead{at(0), at(1), at(2), leaky.Instant(at(3))}, true
}

// newest returns the last entry of a subject; k is nil if the log is empty.
func newest(b Table, s subject) (k, v []byte) {
	prefix := s.key()
	k, v = lastBefore(b.Cursor(), append(bytes.Clone(prefix), bytes.Repeat([]byte{0xff}, 9)...))
	if !bytes.HasPrefix(k, prefix) {
		return nil, nil
	}
	return k, v
}

// lastBefore moves to the last entry before a key.
func lastBefore(c Cursor, key []byte) (k, v []byte) {
	if k, _ = c.Seek(key); k == nil {
		return c.Last()
	}
	return c.Prev()
}

// keysWith returns the keys of a table that have a prefix.
func keysWith(b Table, prefix []byte) (keys [][]byte) {
	c := b.Cursor()
	for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		keys = append(keys, bytes.Clone(k))
	}
	return keys
}

func (t *tables) writeLog(updates []logUpdate, keep time.Duration, now leaky.Instant) error {
	for i := range updates {
		u := &updates[i]
		if u.created {
			if err := t.recreate(u.subject, now); err != nil {
				return err
			}
		}
		for j := range u.changes {
			if err := t.writeChange(u.subject, &u.changes[j].Change, keep, now); err != nil {
				return err
			}
		}
		if u.version != nil {
			if err := t.keepVersion(u.subject, u.revision, u.version); err != nil {
				return err
			}
		}
		if u.gone {
			if err := t.markDeleted(u.subject, now.Add(keep), now); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeChange appends a change or merges it into the newest one, and drops entries that are too old or too many.
func (t *tables) writeChange(s subject, c *queue.Change, keep time.Duration, now leaky.Instant) error {
	b := t.Table(changesTable)
	var h entryHead
	k, v := newest(b, s)
	if k != nil {
		var ok bool
		if h, ok = readHead(v); !ok {
			return errChangeLog(s)
		}
		was, err := decodeChange(v)
		if err != nil {
			return err
		}
		if was.Continue(c) {
			text := encodeChange(&was)
			h.bytes, h.last = h.bytes-uint64(len(v))+uint64(entryHeadBytes+len(text)), instantOf(was.Last)
			return b.Put(bytes.Clone(k), h.put(text))
		}
	}
	text := encodeChange(c)
	h.bytes, h.number, h.last = h.bytes+uint64(entryHeadBytes+len(text)), h.number+1, instantOf(c.Last)
	dropped, err := t.dropOld(s, h.bytes, now.Add(-keep))
	if err != nil {
		return err
	}
	h.dropped += dropped
	return b.Put(append(s.key(), key(h.number)...), h.put(text))
}

// dropMost limits how many entries are dropped for their age at a time. Aged entries are not shown anyway.
const dropMost = 100

// dropOld drops the oldest entries: those up to an instant, and as many more as the size of the log requires. forced
// counts the latter.
func (t *tables) dropOld(s subject, total uint64, until leaky.Instant) (forced uint64, err error) {
	b, prefix := t.Table(changesTable), s.key()
	var gone [][]byte
	c := b.Cursor()
	for k, v := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, v = c.Next() {
		h, ok := readHead(v)
		if !ok {
			return 0, errChangeLog(s)
		}
		old, over := h.last <= until, total-(h.bytes-uint64(len(v))) > changelog.MaxBytes
		if !over && (!old || len(gone) >= dropMost) {
			break
		}
		if !old {
			forced++
		}
		gone = append(gone, bytes.Clone(k))
	}
	return forced, dropKeys(b, gone)
}

func dropKeys(b Table, keys [][]byte) error {
	for _, k := range keys {
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

// keepVersion stores a subject as of a revision, and drops all but its last few versions.
func (t *tables) keepVersion(s subject, revision int64, text []byte) error {
	b := t.Table(versionsTable)
	if err := b.Put(append(s.key(), key(uint64(revision))...), text); err != nil {
		return err
	}
	all := keysWith(b, s.key())
	return dropKeys(b, all[:max(0, len(all)-changelog.MaxSpecs)])
}

// versions visits the versions of a subject, oldest first.
func (t *tables) versions(s subject, visit func(revision int64, text []byte) error) error {
	prefix := s.key()
	c := t.Table(versionsTable).Cursor()
	for k, v := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, v = c.Next() {
		if len(k) != len(prefix)+8 {
			return errChangeLog(s)
		}
		if err := visit(int64(binary.BigEndian.Uint64(k[len(prefix):])), v); err != nil {
			return err
		}
	}
	return nil
}

// entries returns up to n changes with numbers below before (0: no bound), newest first, and the head of the newest of
// all. Changes up to the instant until are too old to be shown.
func (t *tables) entries(
	s subject, before int64, n int, until leaky.Instant,
) (list []queue.Change, head entryHead, err error) {
	b, prefix := t.Table(changesTable), s.key()
	k, v := newest(b, s)
	if k == nil {
		return nil, head, nil
	}
	head, ok := readHead(v)
	if !ok {
		return nil, head, errChangeLog(s)
	}
	c := b.Cursor()
	if k, v = c.Seek(k); before > 0 && before <= int64(head.number) {
		k, v = lastBefore(c, append(bytes.Clone(prefix), key(uint64(before))...))
	}
	for ; bytes.HasPrefix(k, prefix) && len(list) < n; k, v = c.Prev() {
		h, ok := readHead(v)
		if !ok {
			return nil, head, errChangeLog(s)
		}
		if h.last <= until {
			break
		}
		change, err := decodeChange(v)
		if err != nil {
			return nil, head, err
		}
		list = append(list, change)
	}
	return list, head, nil
}

// The log of a deleted subject is kept until some instant. The table has one entry by instant and one by subject; its
// sequence is the number of subjects.

func deletedKey(s subject) []byte { return append([]byte{'n'}, s.key()...) }

func deletedUntilKey(s subject, until leaky.Instant) []byte {
	return append(append([]byte{'t'}, key(uint64(until))...), s.key()...)
}

// deletedUntil returns until when the log of a deleted subject is kept.
func (t *tables) deletedUntil(s subject) (until leaky.Instant, deleted bool) {
	v := t.Table(deletedTable).Get(deletedKey(s))
	if len(v) != 8 {
		return 0, false
	}
	return leaky.Instant(binary.BigEndian.Uint64(v)), true
}

// markDeleted keeps the log of a deleted subject until an instant, and drops some logs that are due or too many.
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

func (t *tables) unmarkDeleted(s subject) error {
	until, deleted := t.deletedUntil(s)
	if !deleted {
		return nil
	}
	b := t.Table(deletedTable)
	if err := dropKeys(b, [][]byte{deletedKey(s), deletedUntilKey(s, until)}); err != nil {
		return err
	}
	return b.SetSequence(b.Sequence() - 1)
}

// recreate continues the log of a deleted subject under a new one of that name, unless the log is due to be dropped.
func (t *tables) recreate(s subject, now leaky.Instant) error {
	until, deleted := t.deletedUntil(s)
	if deleted && until <= now {
		return t.forgetLog(s)
	}
	return t.unmarkDeleted(s)
}

func (t *tables) forgetLog(s subject) error {
	prefix := s.key()
	for _, table := range [][]byte{changesTable, versionsTable} {
		b := t.Table(table)
		if err := dropKeys(b, keysWith(b, prefix)); err != nil {
			return err
		}
	}
	return t.unmarkDeleted(s)
}

func errChangeLog(s subject) error {
	return fmt.Errorf("%w: the change log of %s %s", queue.ErrCorrupt, s.of, s.name)
}
