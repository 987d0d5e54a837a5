package boltq

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/internal/series"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/machine"
)

// Document implements document.Documents.
func (e *Engine) Document(ctx context.Context, kind, name string) (d document.Document, err error) {
	if err := e.readable(ctx); err != nil {
		return d, err
	}
	return read(e, func(tx machine.Transaction) (document.Document, error) { return machine.ReadDocument(tx, kind, name) })
}

// DocumentsSince implements document.Documents.
func (e *Engine) DocumentsSince(ctx context.Context, after int64, limit int) (p document.Page, err error) {
	var wall leaky.Instant
	if err := e.look(ctx, func(now leaky.Instant) error { wall = now - e.machine.Ahead; return nil }); err != nil {
		return p, err
	}
	return read(e, func(tx machine.Transaction) (document.Page, error) {
		return machine.ReadDocuments(wall, tx, e.epoch, after, limit)
	})
}

// PutDocument implements document.Documents.
func (e *Engine) PutDocument(ctx context.Context, d document.Document, expect int64) (int64, error) {
	// The caller may have given up, and reuse these before they are written.
	d.Kind, d.Name, d.Text = strings.Clone(d.Kind), strings.Clone(d.Name), bytes.Clone(d.Text)
	for {
		if err := e.readable(ctx); err != nil {
			return 0, err
		}
		known, err := read(e, func(tx machine.Transaction) (machine.KnownDocument, error) {
			return machine.ReadKnownDocument(tx, d)
		})
		if err != nil {
			return 0, err
		}
		revision, err := answerActor(ctx, e, func(now leaky.Instant, by audit.Actor) (int64, uint64, error) {
			return e.machine.PutDocument(now, by, known, d, expect)
		})
		if !errors.Is(err, machine.ErrOutdated) {
			return revision, err
		}
	}
}

// PutSample implements series.Samples.
func (e *Engine) PutSample(ctx context.Context, s series.Sample, keep int64) (bool, error) {
	return answer(ctx, e, func(leaky.Instant) (bool, uint64, error) { return e.machine.PutSample(s, keep) })
}

// SamplesSince implements series.Samples.
func (e *Engine) SamplesSince(ctx context.Context, of uint8, after int64) ([]series.Sample, error) {
	if err := e.readable(ctx); err != nil {
		return nil, err
	}
	return read(e, func(tx machine.Transaction) ([]series.Sample, error) { return machine.ReadSamples(tx, of, after) })
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
	if err := e.readable(ctx); err != nil {
		return p, err
	}
	return read(e, func(tx machine.Transaction) (audit.Page, error) { return machine.ReadAudit(tx, r) })
}
