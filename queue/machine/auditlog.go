package machine

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
)

// The audit log is written in the Transaction of the changes that it tells of. The head of its chain is the last entry
// of the table and nowhere else, so that a commit that fails leaves it as it was.

// audited is an entry that a batch writes; the log adds its number, its time and its place in the chain.
type audited struct {
	entry         audit.Entry
	before, after []byte // not masked yet
}

// audited is what the audit log tells of a change.
func (n *logged) audited(of subject) audited {
	e := audit.Entry{
		Actor: n.actor, Of: string(of.of), Name: of.name, What: n.What, Revision: n.Revision, Was: n.Was,
		Detail: n.Detail, Reason: n.Reason, Jobs: n.Jobs, IDs: n.IDs,
	}
	if !n.Until.IsZero() {
		e.Until = n.Until.UnixMicro()
	}
	return audited{entry: e, before: n.before, after: n.after}
}

// auditJobAct adds what a call did to one more job: the audit log has an entry for each call.
func (b *Commit) auditJobAct(d *jobAct, of subject, c *logged) {
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
	// dropped is how many before it were dropped for want of room, and not for their age.
	dropped uint64
	audit.Record
}

// auditOverhead is about what an entry takes beside its texts.
const auditOverhead = 200

func (r *auditRecord) encode() ([]byte, error) {
	digest, err := hex.DecodeString(string(r.Digest))
	w := writer{}
	w.num(r.bytes, uint64(r.at), r.dropped)
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
	a.dropped = r.num()
	a.Digest = audit.Digest(hex.EncodeToString(r.raw(32)))
	for _, text := range []*[]byte{&a.Text, &a.Before, &a.After} {
		if s := r.text(); s != "" {
			*text = []byte(s)
		}
	}
	return a, r.err("audit")
}

// writeAudit writes the entries of a batch, and drops the oldest. If some went for want of room it returns how many
// that were since the log began.
func (t *tables) writeAudit(entries []audited, o *WriteOptions, now leaky.Instant) (dropped uint64, err error) {
	if len(entries) == 0 {
		return 0, nil
	}
	b := t.Table(auditTable)
	var last auditRecord
	if k, v := b.Cursor().Last(); k != nil {
		if last, err = decodeAudit(k, v); err != nil {
			return 0, err
		}
	}
	for i := range entries {
		next, err := entries[i].record(&last, o.Mask, now)
		if err != nil {
			return 0, err
		}
		if i == len(entries)-1 {
			n := len(entries) + dropAuditMost
			forced, err := dropOldAudit(b, next.bytes, n, o.AuditBytes, now.Add(-o.KeepChanges))
			if err != nil {
				return 0, err
			}
			if next.dropped += forced; forced > 0 {
				dropped = next.dropped
			}
		}
		v, err := next.encode()
		if err != nil {
			return 0, err
		}
		if err := b.Put(key(next.number), v); err != nil {
			return 0, err
		}
		last = next
	}
	return dropped, nil
}

// record is the entry as it is kept behind the one before it.
func (a *audited) record(
	last *auditRecord, mask func(string, []byte) []byte, now leaky.Instant,
) (r auditRecord, err error) {
	e := a.entry
	for _, side := range []struct {
		name   string
		text   []byte
		to     *[]byte
		digest *audit.Digest
	}{{audit.Before, a.before, &r.Before, &e.Before}, {audit.After, a.after, &r.After, &e.After}} {
		if side.text == nil {
			continue
		}
		shown := mask(e.Of, side.text)
		if *side.digest = audit.DigestOf(shown); len(shown) <= audit.MaxTextBytes {
			*side.to = shown
		} else {
			e.LeftOut = append(e.LeftOut, side.name)
		}
	}
	r.number, r.at, r.dropped = last.number+1, now, last.dropped
	e.Number, e.At, e.Previous = int64(r.number), int64(now), string(last.Digest)
	if r.Text, err = json.Marshal(&e); err != nil {
		return r, err
	}
	r.Digest = audit.DigestOf(r.Text)
	r.bytes = last.bytes + uint64(len(r.Text)+len(r.Before)+len(r.After)+auditOverhead)
	return r, nil
}

// dropAuditMost bounds the entries dropped at a time, beside as many as were written.
const dropAuditMost = 400

// dropOldAudit drops the oldest entries, up to n: those up to an instant, and those that are too many, of which forced
// is the number. bytes are those of all entries ever written, the one that is about to be written too.
func dropOldAudit(b Table, bytes uint64, n int, most uint64, until leaky.Instant) (forced uint64, err error) {
	var gone [][]byte
	upTo := uint64(0) // the bytes up to the last one dropped
	c := b.Cursor()
	for k, v := c.First(); k != nil && len(gone) < n; k, v = c.Next() {
		r, err := decodeAudit(k, v)
		if err != nil {
			return 0, err
		}
		if r.at > until {
			if bytes-upTo <= most {
				break
			}
			forced++
		}
		upTo = r.bytes
		gone = append(gone, key(r.number))
	}
	return forced, dropKeys(b, gone)
}
