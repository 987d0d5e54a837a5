package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/asynqx"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// deliverAsynq releases jobs of a queue on one Redis into asynq on another.
var deliverAsynq = Figure{
	Name: "deliver-asynq", Unit: "jobs/s from a queue on Redis into asynq on another Redis",
	Peer: "asynq's client, 64 callers",
	Goal: "0.8 x asynq's client", Met: func(ours, peer, _ float64) bool { return ours >= 0.8*peer },
	Setup: func(ctx context.Context) (Measurements, error) {
		s, err := newRedisStore(ctx)
		if err != nil {
			return Measurements{}, err
		}
		other, err := redistest.Start(ctx, redistest.Options{})
		if err != nil {
			s.Close()
			return Measurements{}, err
		}
		peer := asynqClient(other.Addr())
		s.close = append(s.close, func() { _ = other.Close() }, func() { _ = peer.Close() })
		const count = 30_000
		return Measurements{
			Ours: func(ctx context.Context) (float64, error) {
				if err := other.Client().FlushDB(ctx).Err(); err != nil {
					return 0, err
				}
				if err := s.again(ctx); err != nil {
					return 0, err
				}
				spec := queue.Spec{Name: queueName, Rate: leaky.Unlimited, Capacity: queue.MaxCapacity, Deliver: []byte(`{"asynq": {"task": "mail"}}`)}
				if _, err := s.engine.Put(ctx, spec, queue.AnyRevision); err != nil {
					return 0, err
				}
				if err := fill(ctx, s.engine, queueName, count); err != nil {
					return 0, err
				}
				router := deliver.New(deliver.Options{Asynq: asynqx.Options{Redis: asynq.RedisClientOpt{Addr: other.Addr(), PoolSize: callers}}})
				v, err := deliverFor(ctx, s.engine, router, count, drain.DefaultConcurrency)
				if closed := router.Close(); err == nil {
					err = closed
				}
				if n, sizeErr := other.Client().LLen(ctx, "asynq:{default}:pending").Result(); err == nil && (sizeErr != nil || n != count) {
					err = fmt.Errorf("asynq has %d tasks, want %d: %w", n, count, sizeErr)
				}
				return v, err
			},
			Peer: func(ctx context.Context) (float64, error) {
				if err := other.Client().FlushDB(ctx).Err(); err != nil {
					return 0, err
				}
				return together(ctx, callers, count, func(context.Context) error { return enqueue(peer) })
			},
			Close: s.Close,
		}, nil
	},
}

// deliverFor drains a queue until the handler has done so many jobs, and insists that each went well.
func deliverFor(ctx context.Context, e drain.Engine, h drain.Handler, count int64, concurrency int) (float64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var n atomic.Int64
	start := time.Now()
	var last time.Time
	err := drain.Run(ctx, e, counting(func(ctx context.Context, job *drain.Job, gate drain.Gate) error {
		err := h.Handle(ctx, job, gate)
		switch {
		case err != nil:
			cancel(fmt.Errorf("%s: %w", job.ID, err))
		case n.Add(1) == count:
			last = time.Now()
			cancel(nil)
		}
		return err
	}), drain.Options{Concurrency: concurrency})
	if err == nil && n.Load() < count {
		err = fmt.Errorf("only %d of %d jobs were delivered: %w", n.Load(), count, context.Cause(ctx))
	}
	if err != nil {
		return 0, err
	}
	return float64(count) / last.Sub(start).Seconds(), nil
}

type counting func(ctx context.Context, job *drain.Job, gate drain.Gate) error

func (c counting) Handle(ctx context.Context, job *drain.Job, gate drain.Gate) error {
	return c(ctx, job, gate)
}
