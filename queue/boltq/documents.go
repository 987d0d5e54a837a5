package boltq

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/machine"
)

// Document implements queue.Documents.
func (e *Engine) Document(ctx context.Context, kind, name string) (d queue.Document, err error) {
	if err := e.look(ctx, func(leaky.Instant) error { return nil }); err != nil {
		return d, err
	}
	err = e.db.view(func(tx machine.Transaction) (err error) {
		d, err = machine.ReadDocument(tx, kind, name)
		return err
	})
	return d, err
}

// DocumentsSince implements queue.Documents.
func (e *Engine) DocumentsSince(ctx context.Context, after int64, limit int) (p queue.DocumentsPage, err error) {
	var now leaky.Instant
	if err := e.look(ctx, func(at leaky.Instant) error { now = at; return nil }); err != nil {
		return p, err
	}
	err = e.db.view(func(tx machine.Transaction) (err error) {
		p, err = machine.ReadDocuments(now, tx, e.epoch, after, limit)
		return err
	})
	return p, err
}

// PutDocument implements queue.Documents.
func (e *Engine) PutDocument(ctx context.Context, d queue.Document, expect int64) (revision int64, err error) {
	// The caller may have given up, and use these again, before they are written.
	d.Kind, d.Name, d.Text = strings.Clone(d.Kind), strings.Clone(d.Name), bytes.Clone(d.Text)
	err = e.act(ctx, func(now leaky.Instant, by queue.Actor) (wait uint64, err error) {
		err = e.db.view(func(tx machine.Transaction) (err error) {
			revision, wait, err = e.machine.PutDocument(now, tx, by, d, expect)
			return err
		})
		return wait, err
	})
	if err != nil && !errors.Is(err, queue.ErrRevision) {
		return 0, err
	}
	return revision, err
}

// Record implements queue.AuditLog.
func (e *Engine) Record(ctx context.Context, entry queue.AuditEntry) error {
	entry, err := entry.Recorded()
	if err != nil {
		return err
	}
	return e.do(ctx, func(leaky.Instant) (uint64, error) { return e.machine.Record(entry) })
}

// Audit implements queue.AuditLog.
func (e *Engine) Audit(ctx context.Context, r queue.AuditRequest) (p queue.AuditPage, err error) {
	if err := r.Validate(e.Partitions()); err != nil {
		return p, err
	}
	if err := e.look(ctx, func(leaky.Instant) error { return nil }); err != nil {
		return p, err
	}
	err = e.db.view(func(tx machine.Transaction) (err error) { p, err = machine.ReadAudit(tx, r); return err })
	return p, err
}
