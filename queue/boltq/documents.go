package boltq

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/machine"
)

// Document implements document.Documents.
func (e *Engine) Document(ctx context.Context, kind, name string) (d document.Document, err error) {
	if err := e.look(ctx, func(leaky.Instant) error { return nil }); err != nil {
		return d, err
	}
	err = e.db.view(func(tx machine.Transaction) (err error) {
		d, err = machine.ReadDocument(tx, kind, name)
		return err
	})
	return d, err
}

// DocumentsSince implements document.Documents.
func (e *Engine) DocumentsSince(ctx context.Context, after int64, limit int) (p document.Page, err error) {
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

// PutDocument implements document.Documents.
func (e *Engine) PutDocument(ctx context.Context, d document.Document, expect int64) (revision int64, err error) {
	// The caller may have given up, and reuse these before they are written.
	d.Kind, d.Name, d.Text = strings.Clone(d.Kind), strings.Clone(d.Name), bytes.Clone(d.Text)
	for err = machine.ErrOutdated; errors.Is(err, machine.ErrOutdated); {
		var known machine.KnownDocument
		err = e.look(ctx, func(leaky.Instant) error { return nil })
		if err == nil {
			err = e.db.view(func(tx machine.Transaction) (err error) {
				known, err = machine.ReadKnownDocument(tx, d)
				return err
			})
		}
		if err == nil {
			err = e.act(ctx, func(now leaky.Instant, by audit.Actor) (wait uint64, err error) {
				revision, wait, err = e.machine.PutDocument(now, by, known, d, expect)
				return wait, err
			})
		}
	}
	if err != nil && !errors.Is(err, queue.ErrRevision) {
		return 0, err
	}
	return revision, err
}

// Record implements audit.Log.
func (e *Engine) Record(ctx context.Context, entry audit.Entry) error {
	entry, err := entry.Recorded()
	if err != nil {
		return err
	}
	return e.do(ctx, func(leaky.Instant) (uint64, error) { return e.machine.Record(entry) })
}

// Audit implements audit.Log.
func (e *Engine) Audit(ctx context.Context, r audit.Request) (p audit.Page, err error) {
	if err := r.Validate(e.Partitions()); err != nil {
		return p, err
	}
	if err := e.look(ctx, func(leaky.Instant) error { return nil }); err != nil {
		return p, err
	}
	err = e.db.view(func(tx machine.Transaction) (err error) { p, err = machine.ReadAudit(tx, r); return err })
	return p, err
}
