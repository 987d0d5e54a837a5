package boltq

import (
	"context"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/machine"
)

// Job implements queue.Jobs.
func (e *Engine) Job(ctx context.Context, name, id string) (i queue.JobInfo, err error) {
	var f *machine.Found
	for f == nil { // nil while the job arrives: look again after its commit
		err = e.lookDurable(ctx, func(now leaky.Instant) (wait uint64, err error) {
			f, wait, err = e.machine.FindJob(now, name, id)
			return wait, err
		})
		if err != nil {
			return i, err
		}
	}
	return read(e, f.Read)
}

// ListJobs implements queue.Jobs.
func (e *Engine) ListJobs(ctx context.Context, r queue.ListRequest) (list queue.Listing, err error) {
	var l *machine.Listing
	err = e.look(ctx, func(now leaky.Instant) (err error) { l, err = e.machine.ListJobs(now, r); return err })
	if err != nil {
		return list, err
	}
	err = e.db.view(func(tx machine.Transaction) error { list = l.Read(tx); return nil })
	return list, err
}

// FindJobs implements queue.Jobs.
func (e *Engine) FindJobs(ctx context.Context, r queue.FindRequest) (found queue.FoundJobs, err error) {
	var f *machine.Finding
	err = e.look(ctx, func(now leaky.Instant) (err error) { f, err = e.machine.FindJobs(now, r); return err })
	if err != nil {
		return found, err
	}
	err = e.db.view(func(tx machine.Transaction) error { found = f.Read(tx); return nil })
	return found, err
}

// Batches implements queue.Jobs.
func (e *Engine) Batches(ctx context.Context, r queue.BatchesRequest) (list []queue.Batch, err error) {
	err = e.lookDurable(ctx, func(now leaky.Instant) (wait uint64, err error) {
		list, wait, err = e.machine.Batches(now, r)
		return wait, err
	})
	return list, err
}

// DeadQueues implements queue.Jobs.
func (e *Engine) DeadQueues(ctx context.Context, after string, limit int) (list []queue.DeadQueue, err error) {
	err = e.look(ctx, func(now leaky.Instant) error { list = e.machine.DeadQueues(now, after, limit); return nil })
	return list, err
}

// Cancel implements queue.Jobs.
func (e *Engine) Cancel(ctx context.Context, name, id string) (queue.State, error) {
	return answerActor(ctx, e, func(now leaky.Instant, by audit.Actor) (queue.State, uint64, error) {
		return e.machine.Cancel(now, by, name, id)
	})
}

// Purge implements queue.Jobs.
func (e *Engine) Purge(ctx context.Context, r queue.PurgeRequest) (queue.Purged, error) {
	return answerActor(ctx, e, func(now leaky.Instant, by audit.Actor) (queue.Purged, uint64, error) {
		return e.machine.Purge(now, by, r)
	})
}

// Replay implements queue.Jobs.
func (e *Engine) Replay(ctx context.Context, name string, ids []string) ([]queue.ReplayOutcome, error) {
	var r *machine.Replaying
	err := e.look(ctx, func(now leaky.Instant) (err error) { r, err = e.machine.FindDead(now, name, ids); return err })
	if err != nil {
		return nil, err
	}
	if err := e.db.view(func(tx machine.Transaction) error { r.Read(tx); return nil }); err != nil {
		return nil, err
	}
	return answerActor(ctx, e, func(now leaky.Instant, by audit.Actor) ([]queue.ReplayOutcome, uint64, error) {
		return e.machine.Replay(now, by, r)
	})
}

// Forget implements queue.Jobs.
func (e *Engine) Forget(ctx context.Context, name string, ids []string) ([]bool, error) {
	return answerActor(ctx, e, func(now leaky.Instant, by audit.Actor) ([]bool, uint64, error) {
		return e.machine.Forget(now, by, name, ids)
	})
}

// Decide implements queue.Jobs.
func (e *Engine) Decide(
	ctx context.Context, name string, ids []string, v queue.Verdict, reason string,
) ([]queue.State, error) {
	return answerActor(ctx, e, func(now leaky.Instant, by audit.Actor) ([]queue.State, uint64, error) {
		return e.machine.Decide(now, by, name, ids, v, reason)
	})
}
