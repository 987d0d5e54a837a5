package boltq

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// The audit log is written in the transaction of the changes that it tells of. The head of its chain is the last entry
// of the table and nowhere else, so that a commit that fails leaves it as it was.

// audited is an entry that a batch writes; the log adds its number, its time and its place in the chain.
type audited struct {
	entry         queue.AuditEntry
	before, after []byte // not masked yet
}

// audited is what the audit log tells of a change.
func (n *logged) audited(of subject) audited {
	e := queue.AuditEntry{
		Actor: n.actor, Of: string(of.of), Name: of.name, What: n.What, Revision: n.Revision, Was: n.Was,
		Detail: n.Detail, Reason: n.Reason, Jobs: n.Jobs, IDs: n.IDs,
	}
	if !n.Until.IsZero() {
		e.Until = n.Until.UnixMicro()
	}
	return audited{entry: e, before: n.before, after: n.after}
}

// auditJobAct adds what a call did to one more job: the audit log has an entry for each call.
func (b *batch) auditJobAct(d *jobAct, of subject, c *logged) {
	at, found := b.auditedActs[d]
	if !found {
		b.auditedActs[d] = len(b.audited)
		b.audited = append(b.audited, c.audited(of))
		return
	}
	e := &b.audited[at].entry
	e.Jobs += c.Jobs
	if len(e.IDs) < queue.MaxChangeIDs {
		e.IDs = append(e.IDs, c.IDs...)
	}
}

// auditRecord is an entry in the file.
type auditRecord struct {
	number uint64
	bytes  uint64 // of all entries ever written up to this one, itself included
	at     leaky.Instant
	queue.AuditRecord
}

// auditOverhead is about what an entry takes beside its texts.
const auditOverhead = 200

func (r *auditRecord) encode() ([]byte, error) {
	digest, err := hex.DecodeString(string(r.Digest))
	w := writer{}
	w.num(r.bytes, uint64(r.at))
	w = append(w, digest...)
	for _, text := range [][]byte{r.Text, r.Before, r.After} {
		w.text(string(text))
	}
	return w, err
}

func decodeAudit(k, v []byte) (a auditRecord, err error) {
	if len(k) != 8 {
		return a, fmt.Errorf("%w: the audit log has a key of %d bytes", queue.ErrCorrupt, len(k))
	}
	r := reader{b: v}
	a.number, a.bytes, a.at = binary.BigEndian.Uint64(k), r.num(), leaky.Instant(r.num())
	a.Digest = queue.Digest(hex.EncodeToString(r.raw(32)))
	for _, text := range []*[]byte{&a.Text, &a.Before, &a.After} {
		if s := r.text(); s != "" {
			*text = []byte(s)
		}
	}
	return a, r.err("audit")
}

// writeAudit writes the entries of a batch, and drops the oldest.
func (t *tables) writeAudit(entries []audited, o *Options, now leaky.Instant) error {
	if len(entries) == 0 {
		return nil
	}
	b := t.tx.Bucket(auditTable)
	b.FillPercent = 1 // it is only appended
	var last auditRecord
	if k, v := b.Cursor().Last(); k != nil {
		var err error
		if last, err = decodeAudit(k, v); err != nil {
			return err
		}
	}
	for i := range entries {
		next, err := entries[i].record(&last, o.Mask, now)
		if err != nil {
			return err
		}
		v, err := next.encode()
		if err != nil {
			return err
		}
		if err := b.Put(key(next.number), v); err != nil {
			return err
		}
		last = next
	}
	return dropOldAudit(b, &last, len(entries)+dropAuditMost, o.auditBytes, now.Add(-o.KeepChanges))
}

// record is the entry as it is kept behind the one before it.
func (a *audited) record(
	last *auditRecord, mask func(string, []byte) []byte, now leaky.Instant,
) (r auditRecord, err error) {
	e := a.entry
	for _, side := range []struct {
		text   []byte
		to     *[]byte
		digest *queue.Digest
	}{{a.before, &r.Before, &e.Before}, {a.after, &r.After, &e.After}} {
		if side.text != nil {
			*side.to = mask(e.Of, side.text)
			*side.digest = queue.DigestOf(*side.to)
		}
	}
	r.number, r.at = last.number+1, now
	e.Number, e.At, e.Previous = int64(r.number), int64(now), string(last.Digest)
	if r.Text, err = json.Marshal(&e); err != nil {
		return r, err
	}
	r.Digest = queue.DigestOf(r.Text)
	r.bytes = last.bytes + uint64(len(r.Text)+len(r.Before)+len(r.After)+auditOverhead)
	return r, nil
}

// dropAuditMost bounds the entries dropped at a time, beside as many as were written.
const dropAuditMost = 400

// dropOldAudit drops the oldest entries, up to n: those up to an instant, and those that are too many. The newest
// stays, since the next one names its digest.
func dropOldAudit(b *bbolt.Bucket, newest *auditRecord, n int, most uint64, until leaky.Instant) error {
	var gone [][]byte
	upTo := uint64(0) // the bytes up to the last one dropped
	c := b.Cursor()
	for k, v := c.First(); k != nil && len(gone) < n; k, v = c.Next() {
		r, err := decodeAudit(k, v)
		if err != nil {
			return err
		}
		if r.number == newest.number || r.at > until && newest.bytes-upTo <= most {
			break
		}
		upTo = r.bytes
		gone = append(gone, key(r.number))
	}
	return dropKeys(b, gone)
}
