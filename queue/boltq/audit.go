package boltq

import (
	"context"
	"encoding/binary"

	"github.com/penstock/penstock/queue"
)

// Record implements queue.AuditLog.
func (e *Engine) Record(ctx context.Context, entry queue.AuditEntry) error {
	entry, err := entry.Recorded()
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c := newCall()
	e.lock()
	if err := e.usable(); err != nil {
		e.unlock()
		return err
	}
	e.enqueue(c, &auditChange{fileChange{c}, entry})
	e.unlock()
	if err := c.await(ctx); err != nil {
		return err
	}
	return c.err
}

// auditChange writes an entry about something that changed nothing.
type auditChange struct {
	fileChange
	entry queue.AuditEntry
}

func (c *auditChange) prepare(b *batch) { b.audited = append(b.audited, audited{entry: c.entry}) }

func (c *auditChange) freesSpace() bool { return false }

// Audit implements queue.AuditLog.
func (e *Engine) Audit(ctx context.Context, r queue.AuditRequest) (p queue.AuditPage, err error) {
	if err := r.Validate(e.Partitions()); err != nil {
		return p, err
	}
	if err := e.lookable(ctx); err != nil {
		return p, err
	}
	err = e.db.view(func(t *tables) error {
		c := t.table(auditTable).cursor()
		k, v := c.Last()
		if k == nil {
			return nil
		}
		newest, err := decodeAudit(k, v)
		if err != nil {
			return err
		}
		oldest, _ := c.First()
		p.Newest, p.Oldest = int64(newest.number), int64(binary.BigEndian.Uint64(oldest))
		p.Head, p.Dropped = newest.Digest, int64(newest.dropped)
		step := c.Next
		if r.Back {
			step = c.Prev
		}
		for k, v = beginAudit(c, &r); k != nil && len(p.Records) < r.Limit; k, v = step() {
			a, err := decodeAudit(k, v)
			if err != nil {
				return err
			}
			p.Records = append(p.Records, a.AuditRecord)
		}
		return nil
	})
	return p, err
}

// beginAudit moves to the first entry that is wanted.
func beginAudit(c cursor, r *queue.AuditRequest) (k, v []byte) {
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

// lookable returns why the file cannot be read, or nil.
func (e *Engine) lookable(ctx context.Context) error {
	e.lock()
	defer e.unlock()
	return e.readable(ctx)
}
