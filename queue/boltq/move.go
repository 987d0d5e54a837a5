package boltq

import (
	"context"

	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/machine"
)

// Schema is the version of the file's layout, as recorded in archives.
const Schema = schema

// ExportQueue implements move.Mover.
func (e *Engine) ExportQueue(ctx context.Context, name string) (q move.Queue, err error) {
	err = e.look(ctx, func(now leaky.Instant) (err error) { q, err = e.machine.ExportQueue(now, name); return err })
	return q, err
}

// ExportJobs implements move.Mover.
func (e *Engine) ExportJobs(ctx context.Context, r move.ExportRequest) (out move.Exported, err error) {
	var x *machine.Export
	err = e.look(ctx, func(now leaky.Instant) (err error) { x, err = e.machine.ExportJobs(now, r); return err })
	if err != nil {
		return out, err
	}
	err = e.db.view(func(tx machine.Transaction) error { out = x.Read(tx); return nil })
	return out, err
}

// OpenImport implements move.Mover.
func (e *Engine) OpenImport(ctx context.Context, q move.Queue, mark string) (closed bool, err error) {
	s, err := machine.SpecTextBy(e.imported.Parse, q.Spec)
	if err != nil {
		return false, err
	}
	err = e.act(ctx, func(now leaky.Instant, by audit.Actor) (wait uint64, err error) {
		closed, wait, err = e.machine.OpenImport(now, by, &q, s, mark)
		return wait, err
	})
	return closed, err
}

// ImportJobs implements move.Mover.
func (e *Engine) ImportJobs(
	ctx context.Context, name, mark string, jobs []move.Job,
) (outcomes []move.Outcome, err error) {
	err = e.do(ctx, func(now leaky.Instant) (wait uint64, err error) {
		outcomes, wait, err = e.machine.ImportJobs(now, name, mark, jobs)
		return wait, err
	})
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}

// CloseImport implements move.Mover.
func (e *Engine) CloseImport(ctx context.Context, q move.Queue, mark string) error {
	return e.act(ctx, func(now leaky.Instant, by audit.Actor) (uint64, error) {
		return e.machine.CloseImport(now, by, &q, mark)
	})
}
