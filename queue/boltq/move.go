package boltq

import (
	"context"
	"slices"

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

// ImportQueues implements move.Mover.
func (e *Engine) ImportQueues(ctx context.Context, queues []move.Queue, mark string) (done []bool, err error) {
	list := make([]machine.NewQueue, len(queues))
	for i := range queues {
		list[i].Moved = &queues[i]
		if list[i].Spec, err = machine.SpecTextBy(e.imported.Parse, queues[i].Spec); err != nil {
			return nil, err
		}
	}
	for step := range slices.Chunk(list, move.MaxStep) {
		some, err := answerActor(ctx, e, func(now leaky.Instant, by audit.Actor) ([]bool, uint64, error) {
			return e.machine.ImportQueues(now, by, step, mark)
		})
		if err != nil {
			return nil, err
		}
		done = append(done, some...)
	}
	return done, nil
}

// OpenImport implements move.Mover.
func (e *Engine) OpenImport(ctx context.Context, q move.Queue, mark string) (closed bool, err error) {
	s, err := machine.SpecTextBy(e.imported.Parse, q.Spec)
	if err != nil {
		return false, err
	}
	return answerActor(ctx, e, func(now leaky.Instant, by audit.Actor) (closed bool, wait uint64, err error) {
		return e.machine.OpenImport(now, by, &q, s, mark)
	})
}

// ImportJobs implements move.Mover.
func (e *Engine) ImportJobs(ctx context.Context, name, mark string, jobs []move.Job) ([]move.Outcome, error) {
	return answer(ctx, e, func(now leaky.Instant) ([]move.Outcome, uint64, error) {
		return e.machine.ImportJobs(now, name, mark, jobs)
	})
}

// CloseImport implements move.Mover.
func (e *Engine) CloseImport(ctx context.Context, q move.Queue, mark string) error {
	return e.act(ctx, func(now leaky.Instant, by audit.Actor) (uint64, error) {
		return e.machine.CloseImport(now, by, &q, mark)
	})
}
