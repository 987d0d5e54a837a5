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
	for f == nil { // until it has arrived
		err = e.lookDurable(ctx, func(now leaky.Instant) (wait uint64, err error) {
			f, wait, err = e.machine.FindJob(now, name, id)
			return wait, err
		})
		if err != nil {
			return i, err
		}
	}
	err = e.db.view(func(tx machine.Transaction) (err error) { i, err = f.Read(tx); return err })
	return i, err
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

// DeadQueues implements queue.Jobs.
func (e *Engine) DeadQueues(ctx context.Context, after string, limit int) (list []queue.DeadQueue, err error) {
	err = e.look(ctx, func(now leaky.Instant) error { list = e.machine.DeadQueues(now, after, limit); return nil })
	return list, err
}

// Cancel implements queue.Jobs.
func (e *Engine) Cancel(ctx context.Context, name, id string) (s queue.State, err error) {
	err = e.act(ctx, func(now leaky.Instant, by audit.Actor) (wait uint64, err error) {
		s, wait, err = e.machine.Cancel(now, by, name, id)
		return wait, err
	})
	if err != nil {
		return queue.StateNone, err
	}
	return s, nil
}

// Purge implements queue.Jobs.
func (e *Engine) Purge(ctx context.Context, r queue.PurgeRequest) (p queue.Purged, err error) {
	err = e.act(ctx, func(now leaky.Instant, by audit.Actor) (wait uint64, err error) {
		p, wait, err = e.machine.Purge(now, by, r)
		return wait, err
	})
	if err != nil {
		return queue.Purged{}, err
	}
	return p, nil
}

// Replay implements queue.Jobs.
func (e *Engine) Replay(ctx context.Context, name string, ids []string) (out []queue.ReplayOutcome, err error) {
	var r *machine.Replaying
	err = e.look(ctx, func(now leaky.Instant) (err error) { r, err = e.machine.FindDead(now, name, ids); return err })
	if err != nil {
		return nil, err
	}
	if err := e.db.view(func(tx machine.Transaction) error { r.Read(tx); return nil }); err != nil {
		return nil, err
	}
	err = e.act(ctx, func(now leaky.Instant, by audit.Actor) (wait uint64, err error) {
		out, wait, err = e.machine.Replay(now, by, r)
		return wait, err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Forget implements queue.Jobs.
func (e *Engine) Forget(ctx context.Context, name string, ids []string) (out []bool, err error) {
	err = e.act(ctx, func(now leaky.Instant, by audit.Actor) (wait uint64, err error) {
		out, wait, err = e.machine.Forget(now, by, name, ids)
		return wait, err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Decide implements queue.Jobs.
func (e *Engine) Decide(
	ctx context.Context, name string, ids []string, v queue.Verdict, reason string,
) (out []queue.State, err error) {
	err = e.act(ctx, func(now leaky.Instant, by audit.Actor) (wait uint64, err error) {
		out, wait, err = e.machine.Decide(now, by, name, ids, v, reason)
		return wait, err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
