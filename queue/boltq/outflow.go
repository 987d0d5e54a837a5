package boltq

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/machine"
)

// Partitions implements queue.Outflow: an embedded store has one partition.
func (e *Engine) Partitions() int { return 1 }

// Reserve implements queue.Outflow.
func (e *Engine) Reserve(ctx context.Context, r queue.ReserveRequest) (queue.Reserved, error) {
	var g *machine.Granting
	var latest leaky.Instant
	if !r.Latest.IsZero() {
		latest = leaky.Instant(r.Latest.UnixMicro())
	}
	err := e.doKnowing(ctx, latest, func(now leaky.Instant) (wait uint64, err error) {
		if g, err = e.machine.Reserve(now, r); err != nil {
			return 0, err
		}
		return g.Wait, nil
	})
	switch {
	case err != nil:
		return queue.Reserved{}, err
	case g.Empty():
		return g.Reserved, nil
	}
	err = e.db.view(func(tx machine.Transaction) error { g.Read(tx); return nil })
	e.lock()
	defer e.unlock()
	switch {
	case e.closing:
		return queue.Reserved{}, queue.ErrClosed
	case err != nil:
		return queue.Reserved{}, fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
	}
	for _, bad := range e.machine.Jobs(e.now(), g) {
		e.log.Error("the record of a job cannot be read", "path", e.path, "queue", bad.Queue, "job", bad.ID,
			"error", bad.Err)
	}
	return g.Reserved, nil
}

// Settle implements queue.Outflow.
func (e *Engine) Settle(ctx context.Context, s []queue.Settlement) (answers []queue.Settled, err error) {
	err = e.do(ctx, func(now leaky.Instant) (wait uint64, err error) {
		answers, wait = e.machine.Settle(now, s)
		return wait, nil
	})
	if err != nil {
		return nil, err
	}
	for i := range answers {
		if answers[i].Err == nil {
			return answers, nil
		}
	}
	if len(answers) == 0 {
		return nil, nil
	}
	return answers, answers[0].Err // nothing could be decided
}

// Extend implements queue.Outflow.
func (e *Engine) Extend(ctx context.Context, leases []queue.Lease) (answers []queue.Extended, err error) {
	err = e.do(ctx, func(now leaky.Instant) (wait uint64, err error) {
		answers, wait = e.machine.Extend(now, leases)
		return wait, nil
	})
	return answers, err
}

// Throttle implements queue.Specs.
func (e *Engine) Throttle(
	ctx context.Context, name string, after time.Duration, reason string,
) (until time.Time, err error) {
	err = e.do(ctx, func(now leaky.Instant) (wait uint64, err error) {
		at, wait, err := e.machine.Throttle(now, name, after, reason)
		until = at.Time()
		return wait, err
	})
	return until, err
}

// Upcoming returns what comes next; see machine.Machine.
func (e *Engine) Upcoming(
	ctx context.Context, asks func(pulled string) bool,
) (u machine.Upcoming, err error) {
	err = e.look(ctx, func(now leaky.Instant) error { u = e.machine.Upcoming(asks, now); return nil })
	return u, err
}

// Sweep implements queue.Outflow.
func (e *Engine) Sweep(ctx context.Context, _ int) (more bool, err error) {
	e.forgetExpiredTallies()
	err = e.do(ctx, func(now leaky.Instant) (uint64, error) { return e.machine.Sweep(now), nil })
	if err != nil {
		return ctx.Err() == nil, err
	}
	err = e.look(ctx, func(now leaky.Instant) error { more = e.machine.NeedsSweep(now); return nil })
	return more, err
}
