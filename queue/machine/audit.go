package machine

import (
	"encoding/binary"
	"math"

	"github.com/penstock/penstock/queue/audit"
)

// Record keeps an entry about something that changed nothing, and returns the commit to wait for. Errors: that there
// is no room.
func (m *Machine) Record(entry audit.Entry) (wait uint64, err error) {
	if m.Full != nil {
		return 0, m.Full
	}
	m.present.audited = append(m.present.audited, audited{entry: entry})
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

// chains returns the chain of each budget.
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

// beginAudit moves to the first entry that is wanted.
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
