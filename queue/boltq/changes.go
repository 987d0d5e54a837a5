package boltq

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// encodeChange is what the file has of a change. It is written in the transaction of the change
// itself.
func encodeChange(c *queue.Change) ([]byte, error) {
	w := writer{}
	w.num(uint64(instant(c.At)), uint64(c.Revision), uint64(c.Was), uint64(instant(c.Until)))
	for _, s := range []string{c.By, string(c.What), c.Reason} {
		w.text(s)
	}
	for _, s := range []*queue.Spec{c.Before, c.After} {
		var text []byte
		if s != nil {
			var err error
			if text, err = queue.EncodeSpec(*s); err != nil {
				return nil, err
			}
		}
		w.text(string(text))
	}
	return w, nil
}

func decodeChange(b []byte) (c queue.Change, err error) {
	r := reader{b: b}
	at, revision, was, until := leaky.Instant(r.num()), r.num(), r.num(), leaky.Instant(r.num())
	c = queue.Change{At: at.Time(), Revision: int64(revision), Was: int64(was), By: r.text(), What: queue.ChangeKind(r.text()), Reason: r.text()}
	if until != 0 {
		c.Until = until.Time()
	}
	for _, to := range []**queue.Spec{&c.Before, &c.After} {
		if text := r.text(); text != "" {
			s, err := queue.ParseSpec([]byte(text))
			if err != nil {
				return c, fmt.Errorf("%w: a former spec: %w", queue.ErrCorrupt, err)
			}
			*to = &s
		}
	}
	return c, r.err("change")
}

// The changes of a name stand under it and a zero byte, which no name has, in their order.
func changesOf(name string) []byte { return append([]byte(name), 0) }

// back goes through the changes of a name, newest first, until visit returns false.
func (t *tables) back(name string, visit func(k, v []byte) bool) {
	prefix, c := changesOf(name), t.tx.Bucket(changesTable).Cursor()
	step := c.Prev
	if k, _ := c.Seek(append([]byte(name), 1)); k == nil { // what comes next
		step = c.Last
	}
	k, v := step()
	for ; bytes.HasPrefix(k, prefix) && visit(k, v); k, v = c.Prev() {
	}
}

// note adds changes of a queue, the latest last, and drops what are too many.
func (t *tables) note(name string, list []queue.Change) error {
	if len(list) == 0 {
		return nil
	}
	b := t.tx.Bucket(changesTable)
	for i := range list {
		if list[i].Before == nil && list[i].After != nil { // it is made: what was kept of a deleted one goes on
			if err := t.unbury(name, instant(list[i].At)); err != nil {
				return err
			}
		}
		text, err := encodeChange(&list[i])
		if err != nil {
			return err
		}
		n, err := b.NextSequence()
		if err != nil {
			return err
		}
		if err := b.Put(binary.BigEndian.AppendUint64(changesOf(name), n), text); err != nil {
			return err
		}
		if list[i].What == queue.Deleted {
			if err := t.bury(name, instant(list[i].At)); err != nil {
				return err
			}
		}
	}
	count, size := 0, 0
	return t.dropChanges(name, func(v []byte) bool {
		count++
		size += len(v)
		return count > 1 && (count > queue.MaxChanges || size > queue.MaxChangesBytes)
	})
}

// dropChanges drops changes of a name from the newest that is too old on.
func (t *tables) dropChanges(name string, tooOld func(v []byte) bool) error {
	var gone [][]byte
	t.back(name, func(k, v []byte) bool {
		if len(gone) > 0 || tooOld(v) {
			gone = append(gone, bytes.Clone(k))
		}
		return true
	})
	for _, k := range gone {
		if err := t.tx.Bucket(changesTable).Delete(k); err != nil {
			return err
		}
	}
	return nil
}

// bury notes that the changes of a deleted queue are kept for a while, and drops those of
// others whose time has come, or that are too many.
func (t *tables) bury(name string, at leaky.Instant) error {
	b := t.tx.Bucket(buriedTable)
	if err := b.Put(append(key(uint64(at)), name...), nil); err != nil {
		return err
	}
	count, gone := 0, [][]byte(nil)
	_ = b.ForEach(func(k, _ []byte) error { count++; return nil }) // they are some thousand at most
	c := b.Cursor()
	for k, _ := c.First(); k != nil && len(gone) < 100 && (over(k, at) || count-len(gone) > queue.MaxDeletedChanges); k, _ = c.Next() {
		gone = append(gone, bytes.Clone(k))
	}
	for _, k := range gone {
		if err := t.dropChanges(string(k[8:]), func([]byte) bool { return true }); err != nil {
			return err
		}
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

// over reports whether the time of a deleted queue's changes has come.
func over(buried []byte, now leaky.Instant) bool {
	return leaky.Instant(binary.BigEndian.Uint64(buried)).Add(queue.ChangesKept) <= now
}

// buriedAt returns the key of a deleted queue of which changes are kept, nil if there is none.
func (t *tables) buriedAt(name string) (k []byte) {
	t.back(name, func(_, v []byte) bool {
		if c, err := decodeChange(v); err == nil && c.What == queue.Deleted {
			k = append(key(uint64(instant(c.At))), name...)
		}
		return false
	})
	return k
}

func (t *tables) unbury(name string, now leaky.Instant) error {
	k := t.buriedAt(name)
	if k == nil {
		return nil
	}
	if over(k, now) {
		if err := t.dropChanges(name, func([]byte) bool { return true }); err != nil {
			return err
		}
	}
	return t.tx.Bucket(buriedTable).Delete(k)
}

// lapse is what is to be recorded of a pause that has ended by itself.
func (l *line) lapse(now leaky.Instant) []queue.Change {
	if !l.pause.over(now) {
		return nil
	}
	return []queue.Change{{At: l.pause.until.Time(), What: queue.Resumed, Revision: l.revision, Was: l.revision, Reason: queue.LapseReason}}
}

// Changes implements queue.Specs.
func (e *Engine) Changes(ctx context.Context, name string, limit int) ([]queue.Change, error) {
	if err := queue.ValidateChanges(limit); err != nil {
		return nil, err
	}
	e.mu.Lock()
	if err := e.readable(ctx); err != nil {
		e.mu.Unlock()
		return nil, err
	}
	now := e.now()
	var list []queue.Change
	if l, err := e.live(name); err == nil {
		list = l.lapse(now)
	}
	e.mu.Unlock()
	lapsed := len(list) > 0
	err := e.db.View(func(tx *bbolt.Tx) (err error) {
		t := &tables{tx: tx}
		if k := t.buriedAt(name); k != nil && over(k, now) {
			return nil
		}
		t.back(name, func(_, v []byte) bool {
			var c queue.Change
			if c, err = decodeChange(v); err != nil {
				return false
			}
			if lapsed && c.What == queue.Resumed && c.By == "" && c.At.Equal(list[0].At) {
				list, lapsed = list[1:], false // it has been recorded meanwhile
			}
			list = append(list, c)
			return len(list) < limit
		})
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case len(list) == 0:
		return nil, unknownQueue(name)
	}
	return list[:min(len(list), limit)], nil
}

// Rollback implements queue.Specs. The spec is put at the revision at which it was found to be
// the one that is meant.
func (e *Engine) Rollback(ctx context.Context, name string, revision, expect int64) (queue.PutResult, error) {
	changes, err := e.Changes(ctx, name, queue.MaxChanges)
	if err != nil {
		return queue.PutResult{}, err
	}
	spec, now, err := queue.Earlier(name, changes, revision)
	if expect != queue.AnyRevision && expect != now {
		return queue.PutResult{Revision: now}, fmt.Errorf("%w: %s is at revision %d, not %d", queue.ErrRevision, name, now, expect)
	}
	if err != nil {
		return queue.PutResult{}, err
	}
	return e.putSpec(ctx, spec, now, true)
}
