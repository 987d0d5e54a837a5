package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/asynqtarget"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/queue"
)

// deliverAsynq delivers jobs of a queue to asynq on another Redis.
func deliverAsynq(name, where string, open func(context.Context) (store, error)) Figure {
	return Figure{
		Name: name, Unit: "jobs/s " + where + " into asynq on another Redis",
		Peer: "asynq's client, 64 callers", Floor: nothing,
		Goal: "0.8 x asynq's client", Met: func(ours, peer, _ float64) bool { return ours >= 0.8*peer },
		Setup: func(ctx context.Context) (Measurements, error) {
			s, err := open(ctx)
			if err != nil {
				return Measurements{}, err
			}
			other, err := redistest.Start(ctx, redistest.Options{})
			if err != nil {
				s.Close()
				return Measurements{}, err
			}
			peer := asynqClient(other.Addr())
			count := sized(30_000)
			took := bill{}
			theirs := meter{"asynq's Redis", func(ctx context.Context) time.Duration { return redisCPU(ctx, other) }}
			return Measurements{
				Ours: func(ctx context.Context) (float64, error) {
					if err := other.Client().FlushDB(ctx).Err(); err != nil {
						return 0, err
					}
					e, err := full(ctx, s, []byte(`{"asynq": {"task": "mail"}}`), count)
					if err != nil {
						return 0, err
					}
					router := deliver.New(deliver.Options{
						Asynq: asynqtarget.Options{Redis: asynq.RedisClientOpt{Addr: other.Addr(), PoolSize: callers}}.Sender,
					})
					v, err := took.charge(ctx, "ours", count, []meter{{"its store", s.used}, theirs}, func() (float64, error) {
						return deliverFor(ctx, e, router, count, drain.DefaultConcurrency)
					})
					if closed := router.Close(); err == nil {
						err = closed
					}
					if n, sizeErr := other.Client().LLen(ctx, "asynq:{default}:pending").Result(); err == nil && (sizeErr != nil ||
						n != int64(count)) {
						err = fmt.Errorf("asynq has %d tasks, want %d: %w", n, count, sizeErr)
					}
					return v, err
				},
				Peer: func(ctx context.Context) (float64, error) {
					if err := other.Client().FlushDB(ctx).Err(); err != nil {
						return 0, err
					}
					return took.charge(ctx, "peer", count, []meter{theirs}, func() (float64, error) {
						return together(ctx, callers, count, func(context.Context) error { return enqueue(peer) })
					})
				},
				Floor: drained(s, count, drain.DefaultConcurrency),
				Notes: func() string { return took.String() + "; in the last round" },
				Close: func() { _ = peer.Close(); _ = other.Close(); s.Close() },
			}, nil
		},
	}
}

// deliverFor drains a queue until the handler has done count jobs. It returns an error if any of them failed.
func deliverFor(ctx context.Context, e queue.Outflow, h drain.Handler, count int, concurrency int) (float64, error) {
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
		case n.Add(1) == int64(count):
			last = time.Now()
			cancel(nil)
		}
		return err
	}), drain.Options{Concurrency: concurrency})
	if err == nil && n.Load() < int64(count) {
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
