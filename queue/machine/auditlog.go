package machine

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
)

// Entries of the audit log are written in the same Transaction as the changes that they describe. The head of each
// chain is the last entry of its budget in the table and is kept nowhere else. So a commit that fails leaves it
// unchanged.

// audited is an entry to be written. The log adds its number, its time and its place in the chain.
type audited struct {
	entry         audit.Entry
	before, after []byte     // not masked yet
	list          []SpecText // of the queues of an entry about many; then there is no before or after
}

// audited returns the audit entry for a logged change.
func (l *logged) audited(of subject) audited {
	e := audit.Entry{
		Actor: l.actor, Of: string(of.of), Name: of.name, What: l.What, Revision: l.Revision, Was: l.Was,
		Detail: l.Detail, Reason: l.Reason, Jobs: l.Jobs, IDs: l.IDs,
	}
	if !l.Until.IsZero() {
		e.Until = l.Until.UnixMicro()
	}
	return audited{entry: e, before: l.before, after: l.after}
}

// auditRecord is an entry as stored.
type auditRecord struct {
	number uint64
	budget audit.Budget
	bytes  uint64 // of all entries ever written for its budget, including this one
	at     leaky.Instant
	// dropped counts entries of its budget that were dropped to make room, and not for their age.
	dropped uint64
	audit.Record
}

// size returns how many bytes of its budget the entry takes.
func (r *auditRecord) size() uint64 {
	return uint64(len(r.Text) + len(r.Before) + len(r.After) + auditOverhead)
}

// auditOverhead approximates the size of an entry without its texts.
const auditOverhead = 200

func (r *auditRecord) code(c *codec, digest []byte) {
	c.fields(&r.bytes, &r.at, &r.dropped, &r.budget)
	c.raw(digest)
	c.fields(&r.Text, &r.Before, &r.After)
}

func (r *auditRecord) encode() ([]byte, error) {
	digest, err := hex.DecodeString(string(r.Digest))
	c := &codec{}
	r.code(c, digest)
	return c.b, err
}

func decodeAuditNumber(k []byte) (uint64, error) {
	if len(k) != 8 {
		return 0, fmt.Errorf("%w: the audit log has a key of %d bytes", queue.ErrCorrupt, len(k))
	}
	return binary.BigEndian.Uint64(k), nil
}

func decodeAudit(k, v []byte) (a auditRecord, err error) {
	if a.number, err = decodeAuditNumber(k); err != nil {
		return a, err
	}
	c, digest := decoder(v), make([]byte, 32)
	a.code(c, digest)
	a.Digest = audit.Digest(hex.EncodeToString(digest))
	return a, c.err("audit")
}

// auditLog is the audit log in a transaction.
type auditLog struct {
	entries Table // by number
	budgets Table // budget, 0, number: index of each budget's entries
}

func (t *tables) auditLog() auditLog {
	return auditLog{entries: t.Table(auditTable), budgets: t.Table(auditBudgetsTable)}
}

// budgetKey returns the key of an entry in the budgets index.
func budgetKey(budget audit.Budget, number uint64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte(budget), 0), number)
}

func (l auditLog) get(k []byte) (auditRecord, error) {
	number := k[len(k)-8:]
	return decodeAudit(number, l.entries.Get(number))
}

func (l auditLog) lastNumber() (uint64, error) {
	k, _ := l.entries.Cursor().Last()
	if k == nil {
		return 0, nil
	}
	return decodeAuditNumber(k)
}

// newestOf returns the newest entry of a budget; its number is 0 if the budget has no entries.
func (l auditLog) newestOf(budget audit.Budget) (auditRecord, error) {
	k, _ := lastBefore(l.budgets.Cursor(), budgetKey(budget, math.MaxUint64))
	if !bytes.HasPrefix(k, budgetKey(budget, 0)[:len(budget)+1]) {
		return auditRecord{budget: budget}, nil
	}
	return l.get(k)
}

type budgetHead struct {
	last auditRecord
	more int // entries of the commit that are not written yet
}

func (t *tables) writeAudit(entries []audited, o *WriteOptions, now leaky.Instant) error {
	if len(entries) == 0 {
		return nil
	}
	l := t.auditLog()
	number, err := l.lastNumber()
	if err != nil {
		return err
	}
	heads := map[audit.Budget]*budgetHead{}
	for i := range entries {
		budget := entries[i].budget()
		if heads[budget] == nil {
			heads[budget] = &budgetHead{}
			if heads[budget].last, err = l.newestOf(budget); err != nil {
				return err
			}
		}
		heads[budget].more++
	}
	until := now.Add(-o.KeepChanges)
	for i := range entries {
		head := heads[entries[i].budget()]
		number++
		next, err := entries[i].record(number, &head.last, o.Mask, now)
		if err != nil {
			return err
		}
		if head.more--; head.more == 0 {
			n := len(entries) + dropAuditMost
			forced, err := l.dropOldAudit(next.budget, next.bytes, n, o.shareOf(next.budget), until)
			if err != nil {
				return err
			}
			next.dropped += forced
		}
		if err := l.put(&next); err != nil {
			return err
		}
		head.last = next
	}
	return l.dropAged(until)
}

func (l auditLog) put(r *auditRecord) error {
	v, err := r.encode()
	if err != nil {
		return err
	}
	if err := l.entries.Put(key(r.number), v); err != nil {
		return err
	}
	return l.budgets.Put(budgetKey(r.budget, r.number), nil)
}

// budget returns the budget that pays for the entry.
func (a *audited) budget() audit.Budget { return audit.BudgetOf(&a.entry.Actor, a.entry.Refused) }

// shareOf returns about how many bytes of a budget the log keeps.
func (o *WriteOptions) shareOf(budget audit.Budget) uint64 {
	return budget.Bytes() / max(1, o.AuditShares)
}

// record returns the entry as stored after the last one of its budget.
func (a *audited) record(
	number uint64, last *auditRecord, mask func(string, []byte) []byte, now leaky.Instant,
) (r auditRecord, err error) {
	e, sides := a.entry, [2]string{}
	for i, side := range []struct {
		name   string
		text   []byte
		to     *[]byte
		digest *audit.Digest
	}{{audit.Before, a.before, &r.Before, &e.Before}, {audit.After, a.after, &r.After, &e.After}} {
		if side.text == nil {
			continue
		}
		shown := mask(e.Of, side.text)
		sides[i] = string(shown)
		if *side.digest = audit.DigestOf(shown); len(shown) <= audit.MaxTextBytes {
			*side.to = shown
		} else {
			e.LeftOut = append(e.LeftOut, side.name)
		}
	}
	if e.LeftOut != nil {
		diff := audit.DiffOf(sides[0], sides[1])
		e.Diff = &diff
	}
	if a.list != nil {
		if r.After, err = a.listed(mask); err != nil {
			return r, err
		}
		e.After = audit.DigestOf(r.After)
	}
	r.number, r.budget, r.at, r.dropped = number, last.budget, now, last.dropped
	e.Number, e.Budget, e.Follows = int64(number), last.budget, int64(last.number)
	e.At, e.Previous = int64(now), string(last.Digest)
	if r.Text, err = json.Marshal(&e); err != nil {
		return r, err
	}
	r.Digest = audit.DigestOf(r.Text)
	r.bytes = last.bytes + r.size()
	return r, nil
}

// listed returns the After of an entry about many queues.
func (a *audited) listed(mask func(string, []byte) []byte) ([]byte, error) {
	list := make([]audit.ListedQueue, len(a.list))
	for i, s := range a.list {
		list[i] = audit.ListedQueue{Name: s.spec.Name, Spec: audit.DigestOf(mask(a.entry.Of, s.text))}
	}
	return audit.EncodeList(list)
}

// dropAuditMost limits how many entries are dropped at a time, in addition to as many as were written.
const dropAuditMost = 400

// dropOldAudit drops up to n of the oldest entries of a budget: entries up to an instant, and entries beyond its share
// of bytes. forced counts the latter. spent is the total size of its entries ever written, including the one about to
// be written.
func (l auditLog) dropOldAudit(
	budget audit.Budget, spent uint64, n int, share uint64, until leaky.Instant,
) (forced uint64, err error) {
	var gone [][]byte
	first := budgetKey(budget, 0)
	c := l.budgets.Cursor()
	for k, _ := c.Seek(first); bytes.HasPrefix(k, first[:len(budget)+1]) && len(gone) < n; k, _ = c.Next() {
		r, err := l.get(k)
		if err != nil {
			return 0, err
		}
		if r.at > until {
			if spent-(r.bytes-r.size()) <= share { // including this one
				break
			}
			forced++
		}
		gone = append(gone, slices.Clone(k))
	}
	return forced, l.drop(gone)
}

// dropAged drops entries of all budgets up to an instant. The newest entry of a budget stays, because its chain
// continues from there.
func (l auditLog) dropAged(until leaky.Instant) error {
	var gone [][]byte
	c := l.entries.Cursor()
	for k, v := c.First(); k != nil && len(gone) < dropAuditMost; k, v = c.Next() {
		r, err := decodeAudit(k, v)
		if err != nil {
			return err
		}
		if r.at > until {
			break
		}
		newest, err := l.newestOf(r.budget)
		if err != nil {
			return err
		}
		if newest.number != r.number {
			gone = append(gone, budgetKey(r.budget, r.number))
		}
	}
	return l.drop(gone)
}

func (l auditLog) drop(gone [][]byte) error {
	for _, k := range gone {
		if err := errors.Join(l.entries.Delete(k[len(k)-8:]), l.budgets.Delete(k)); err != nil {
			return err
		}
	}
	return nil
}

// Record adds an entry about an action that changed nothing, and returns the commit to wait for. It fails if the store
// is full.
func (m *Machine) Record(entry audit.Entry) (wait uint64, err error) {
	if m.Full != nil {
		return 0, m.Full
	}
	m.current.audited = append(m.current.audited, audited{entry: entry})
	return m.wait(), nil
}

// ReadAudit reads a page of the audit log.
func ReadAudit(tx Transaction, r audit.Request) (p audit.Page, err error) {
	l := (&tables{tx}).auditLog()
	c := l.entries.Cursor()
	newest, _ := c.Last()
	if newest == nil {
		return p, nil
	}
	oldest, _ := c.First()
	p.Newest, p.Oldest = int64(binary.BigEndian.Uint64(newest)), int64(binary.BigEndian.Uint64(oldest))
	if p.Chains, err = l.chains(); err != nil {
		return p, err
	}
	step := c.Next
	if r.Back {
		step = c.Prev
	}
	for k, v := beginAudit(c, &r); k != nil && len(p.Records) < r.Limit; k, v = step() {
		a, err := decodeAudit(k, v)
		if err != nil {
			return p, err
		}
		p.Records = append(p.Records, a.Record)
	}
	return p, nil
}

func (l auditLog) chains() (all []audit.Chain, err error) {
	c := l.budgets.Cursor()
	for k, _ := c.First(); k != nil; {
		budget := audit.Budget(k[:len(k)-9])
		newest, err := l.newestOf(budget)
		if err != nil {
			return nil, err
		}
		all = append(all, audit.Chain{
			Budget: budget, Oldest: int64(binary.BigEndian.Uint64(k[len(k)-8:])), Newest: int64(newest.number),
			Head: newest.Digest, Dropped: int64(newest.dropped),
		})
		k, _ = c.Seek(budgetKey(budget, math.MaxUint64))
	}
	return all, nil
}

func beginAudit(c Cursor, r *audit.Request) (k, v []byte) {
	switch {
	case r.From == 0 && r.Back:
		return c.Last()
	case r.From == 0:
		return c.First()
	}
	k, v = c.Seek(key(uint64(r.From)))
	switch {
	case !r.Back:
		return k, v
	case k == nil:
		return c.Last()
	case binary.BigEndian.Uint64(k) > uint64(r.From):
		return c.Prev()
	}
	return k, v
}
