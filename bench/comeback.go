package main

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/penstock/penstock/deferred"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue/redisq"
)

// comeback measures how long deferred jobs take to come back, one at a time, in milliseconds. The queue has one place,
// and its job is in a handler. Another job is deferred, and once all is quiet the handler returns. The time runs from
// that return, which is before the settlement that frees the place, until the handler has the deferred job. The handler
// then holds that job for the next measurement.
func (r *reservoir) comeback(ctx context.Context, count int) (took []float64, err error) {
	begun, goOn := make(chan string, 1), make(chan struct{})
	handler := drain.HandlerFunc(func(_ context.Context, j *drain.Job) error {
		begun <- j.ID
		<-goOn
		return nil
	})
	run, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.outflow(run, handler) }()
	defer func() {
		stop()
		close(goOn)
		err = errors.Join(err, <-ended)
	}()
	arrives := func(want int64) error {
		select {
		case id := <-begun:
			if id != idOf(want) {
				return fmt.Errorf("job %s arrived in place of %s", id, idOf(want))
			}
			return nil
		case <-time.After(patience):
			return fmt.Errorf("job %s did not arrive within %v", idOf(want), patience)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	a := deferred.New(r.engine, r.stream, nil)
	defer background(ctx, a.Run)()
	if err := makeFull(ctx, r.engine); err != nil {
		return nil, err
	}
	if err := arrives(lastID.Load()); err != nil {
		return nil, err
	}
	for range count {
		if err := deferOne(ctx, a); err != nil {
			return nil, err
		}
		select { // not in step with anything periodic
		case <-time.After(50*time.Millisecond + mathrand.N(50*time.Millisecond)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		start := time.Now()
		goOn <- struct{}{} // the handler waits for it
		if err := arrives(lastID.Load()); err != nil {
			return nil, err
		}
		took = append(took, time.Since(start).Seconds()*1000)
	}
	return took, nil
}

// outflow runs a drainer process with its own connections. It learns of the appender's actions only through Redis and
// NATS.
func (r *reservoir) outflow(ctx context.Context, h drain.Handler) error {
	engine, err := redisq.OpenClient(ctx, r.redis.client, redisq.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = engine.Close() }()
	nc, err := nats.Connect(r.url, nats.ReconnectBufSize(-1))
	if err != nil {
		return err
	}
	defer nc.Close()
	stream, err := deferred.NewStream(nc, deferred.Options{MaxBytes: overflowBytes, Logger: warnings})
	if err != nil {
		return err
	}
	both := func(ctx context.Context) error {
		return ops.RunAll(ctx, func(ctx context.Context) error { return drain.Run(ctx, engine, h, drain.Options{}) },
			deferred.NewReadmitter(engine, stream).Run)
	}
	return ops.RunOver(ctx, both, stream.Run)
}

var deferredIdle = Figure{
	Name: "deferred-idle", Unit: "ms, p50 time from a free place to the handler of a deferred job",
	Goal: "under 50 ms", Met: func(ours, _, _ float64) bool { return ours < 50 },
	Setup: func(ctx context.Context) (Measurements, error) {
		r, err := redisReservoir(ctx)
		if err != nil {
			return Measurements{Close: r.Close}, err
		}
		var all []float64
		return Measurements{
			Ours: func(ctx context.Context) (float64, error) {
				if err := r.again(ctx); err != nil {
					return 0, err
				}
				took, err := r.comeback(ctx, steps(100))
				all = append(all, took...)
				return median(took), err
			},
			Notes: func() string {
				slices.Sort(all)
				return fmt.Sprintf("%d jobs, p99 %.1f ms, longest %.1f ms", len(all), all[len(all)*99/100], all[len(all)-1])
			},
			Close: r.Close,
		}, nil
	},
}
