package machine

import (
	"bytes"
	"encoding/binary"
	"time"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/internal/changelog"
)

// The log of changes: append-only, one for each queue and rule, beside the latest versions of each. It
// does not interpret either. Only the newest entry is ever rewritten: see queue.OneChange.

// subject is what a log is about.
type subject struct {
	of   queue.Subject
	name string
}

// key is the prefix of all keys of a subject. Names have no zero byte.
func (s subject) key() []byte { return append(append(append([]byte(s.of), 0), s.name...), 0) }

func queueSubject(name string) subject { return subject{queue.OfQueue, name} }
func ruleSubject(name string) subject  { return subject{queue.OfRule, name} }

// logged is a change that is to be logged, and who made it.
type logged struct {
	queue.Change
	actor audit.Actor
	// before and after are what it was and what it became, of a change of specs.
	before, after []byte
	// byItself is whether nobody made it, so that the audit log has none of it.
	byItself bool
}

// logUpdate is what a batch logs about a subject.
type logUpdate struct {
	subject
	changes  []logged // oldest first
	revision int64    // of the version
	version  []byte   // nil if it stays as it was
	created  bool     // the log of a deleted one of that name goes on
	gone     bool     // it is deleted, by this or before
}

// logChange adds an update to the batch, for both logs.
func (b *Commit) logChange(n logUpdate) {
	b.logUpdates = append(b.logUpdates, n)
	for i := range n.changes {
		if !n.changes[i].byItself {
			b.audited = append(b.audited, n.changes[i].audited(n.subject))
		}
	}
}

// jobAct is what a call does to jobs, for the log.
type jobAct struct {
	what           changekind.Kind
	actor          audit.Actor
	detail, reason string
}

// logJobAct logs an act on one more job; id is empty if the caller did not name it.
func (b *Commit) logJobAct(d *jobAct, name string, revision int64, id string, gone bool, at leaky.Instant) {
	c := loggedBy(d.what, d.actor, revision, at)
	c.Jobs, c.Detail, c.Reason = 1, d.detail, d.reason
	if id != "" {
		c.IDs = []string{id}
	}
	of := queueSubject(name)
	b.auditJobAct(d, of, &c)
	for i := len(b.logUpdates) - 1; i >= 0; i-- {
		n := &b.logUpdates[i]
		if n.subject != of {
			continue
		}
		if n.gone == gone && len(n.changes) > 0 && n.changes[len(n.changes)-1].Continue(&c.Change) {
			return
		}
		break
	}
	b.logUpdates = append(b.logUpdates, logUpdate{subject: of, changes: []logged{c}, gone: gone})
}

// entryHead stands before a change in the file.
type entryHead struct {
	bytes   uint64 // of all entries ever written up to this one, itself included
	number  uint64
	dropped uint64 // entries before it that were dropped for want of room
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

// newest returns the last entry of a subject, nil if there is none.
func newest(b Table, s subject) (k, v []byte) {
	c, prefix := b.Cursor(), s.key()
	if k, _ = c.Seek(append(bytes.Clone(prefix), bytes.Repeat([]byte{0xff}, 9)...)); k == nil {
		k, v = c.Last()
	} else {
		k, v = c.Prev()
	}
	if !bytes.HasPrefix(k, prefix) {
		return nil, nil
	}
	return k, v
}

// writeLog writes the updates of a batch.
func (t *tables) writeLog(notes []logUpdate, keep time.Duration, now leaky.Instant) error {
	for i := range notes {
		n := &notes[i]
		if n.created {
			if err := t.recreate(n.subject, now); err != nil {
				return err
			}
		}
		for j := range n.changes {
			if err := t.writeChange(n.subject, &n.changes[j].Change, keep, now); err != nil {
				return err
			}
		}
		if n.version != nil {
			if err := t.keepVersion(n.subject, n.revision, n.version); err != nil {
				return err
			}
		}
		if n.gone {
			if err := t.markDeleted(n.subject, now.Add(keep), now); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeChange appends a change, or merges it into the newest, and drops entries that are too old or too many.
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

// dropMost bounds the entries dropped for their age at a time. Those left are not shown anyway.
const dropMost = 100

// dropOld drops the oldest entries: those up to an instant, and as many more as the size of the log requires.
// forced counts the latter.
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

// keepVersion stores what a subject is from a revision on, and drops all but the last few.
func (t *tables) keepVersion(s subject, revision int64, text []byte) error {
	b := t.Table(versionsTable)
	if err := b.Put(append(s.key(), key(uint64(revision))...), text); err != nil {
		return err
	}
	prefix := s.key()
	var all [][]byte
	c := b.Cursor()
	for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		all = append(all, bytes.Clone(k))
	}
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

// entries returns up to n changes with numbers below before (0 is no bound), newest first, and how many were
// dropped. Those up to an instant are too old to be shown.
func (t *tables) entries(
	s subject, before int64, n int, until leaky.Instant,
) (list []queue.Change, dropped int64, err error) {
	b, prefix := t.Table(changesTable), s.key()
	k, v := newest(b, s)
	if k == nil {
		return nil, 0, nil
	}
	head, ok := readHead(v)
	if !ok {
		return nil, 0, errChangeLog(s)
	}
	c := b.Cursor()
	if k, v = c.Seek(k); before > 0 && before <= int64(head.number) {
		if k, _ = c.Seek(append(bytes.Clone(prefix), key(uint64(before))...)); k == nil {
			k, v = c.Last()
		} else {
			k, v = c.Prev()
		}
	}
	for ; bytes.HasPrefix(k, prefix) && len(list) < n; k, v = c.Prev() {
		h, ok := readHead(v)
		if !ok {
			return nil, 0, errChangeLog(s)
		}
		if h.last <= until {
			break
		}
		change, err := decodeChange(v)
		if err != nil {
			return nil, 0, err
		}
		list = append(list, change)
	}
	return list, int64(head.dropped), nil
}
