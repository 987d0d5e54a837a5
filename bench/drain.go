package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// drainFor runs a drainer until the handler has been called count times.
func drainFor(ctx context.Context, e queue.Outflow, count, concurrency int) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var n atomic.Int64
	var last time.Time
	start := time.Now()
	err := drain.Run(ctx, e, drain.HandlerFunc(func(context.Context, *drain.Job) error {
		if n.Add(1) == int64(count) {
			last = time.Now()
			cancel()
		}
		return nil
	}), drain.Options{Concurrency: concurrency})
	if err != nil {
		return 0, err
	}
	if n.Load() < int64(count) {
		return 0, fmt.Errorf("only %d of %d jobs came out", n.Load(), count)
	}
	return float64(count) / last.Sub(start).Seconds(), nil
}

// quiet discards asynq's own log.
type quiet struct{}

func (quiet) Debug(...any) {}
func (quiet) Info(...any)  {}
func (quiet) Warn(...any)  {}
func (quiet) Error(...any) {}
func (quiet) Fatal(args ...any) {
	log.New(io.Discard, "", 0).Print(args...)
}

// minimalDrain does the least work that at-least-once delivery needs for each job: lease it, read it, end it. Each
// script handles 250 jobs a call.
var (
	minimalReserve = redis.NewScript(`#!lua
local ids = redis.call('ZPOPMIN', KEYS[1], ARGV[1])
local lease, keys = {}, {}
for i = 1, #ids, 2 do
  lease[#lease + 1] = ids[i + 1]
  lease[#lease + 1] = ids[i]
  keys[#keys + 1] = KEYS[1] .. ids[i]
end
if #keys == 0 then return {} end
redis.call('ZADD', KEYS[1] .. 'l', unpack(lease))
return { ids, redis.call('MGET', unpack(keys)) }`)
	minimalSettle = redis.NewScript(`#!lua
local keys = {}
for i, id in ipairs(ARGV) do keys[i] = KEYS[1] .. id end
redis.call('ZREM', KEYS[1] .. 'l', unpack(ARGV))
return redis.call('UNLINK', unpack(keys))`)
)

func drainMinimal(ctx context.Context, c *redis.Client, count int) (float64, error) {
	start := time.Now()
	for done := 0; done < count; {
		v, err := minimalReserve.Run(ctx, c, []string{"{floor}"}, 250).Slice()
		if err != nil {
			return 0, err
		}
		ids, _ := v[0].([]any)
		args := make([]any, 0, len(ids)/2)
		for i := 0; i < len(ids); i += 2 {
			args = append(args, ids[i])
		}
		if err := minimalSettle.Run(ctx, c, []string{"{floor}"}, args...).Err(); err != nil {
			return 0, err
		}
		done += len(args)
	}
	return float64(count) / time.Since(start).Seconds(), nil
}

var drainRedis = Figure{
	Name: "drain-redis", Unit: "jobs/s, no-op handler, rate unlimited",
	Peer: "asynq, 64 workers", Floor: "two minimal scripts, 250 jobs per call",
	Goal: "5 x asynq", Met: func(ours, peer, _ float64) bool { return ours >= 5*peer },
	Setup: func(ctx context.Context) (Measurements, error) {
		s, err := newRedisStore(ctx)
		if err != nil {
			return Measurements{}, err
		}
		count, peerCount := sized(100_000), sized(15_000)
		return Measurements{
			Ours: func(ctx context.Context) (float64, error) {
				if err := s.again(ctx); err != nil {
					return 0, err
				}
				if err := put(ctx, s.engine, queueName, leaky.Unlimited); err != nil {
					return 0, err
				}
				if err := fill(ctx, s.engine, queueName, count); err != nil {
					return 0, err
				}
				return drainFor(ctx, s.engine, count, 1024)
			},
			Peer: func(ctx context.Context) (float64, error) {
				if err := s.again(ctx); err != nil {
					return 0, err
				}
				client := asynqClient(s.server.Addr())
				defer func() { _ = client.Close() }()
				if _, err := together(ctx, callers, peerCount, func(context.Context) error { return enqueue(client) }); err != nil {
					return 0, err
				}
				return drainAsynq(ctx, s.server.Addr(), peerCount)
			},
			Floor: func(ctx context.Context) (float64, error) {
				if err := s.again(ctx); err != nil {
					return 0, err
				}
				for range count / batch {
					if err := callMinimal(ctx, s.client, batch); err != nil {
						return 0, err
					}
				}
				return drainMinimal(ctx, s.client, count)
			},
			Close: s.Close,
		}, nil
	},
}

func drainAsynq(ctx context.Context, addr string, count int) (float64, error) {
	server := asynq.NewServer(asynq.RedisClientOpt{Addr: addr}, asynq.Config{
		Concurrency: callers, Queues: map[string]int{queueName: 1}, Logger: quiet{}, LogLevel: asynq.FatalLevel,
	})
	var n atomic.Int64
	done := make(chan time.Time, 1)
	start := time.Now()
	err := server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		if n.Add(1) == int64(count) {
			done <- time.Now()
		}
		return nil
	}))
	if err != nil {
		return 0, err
	}
	defer server.Shutdown()
	select {
	case end := <-done:
		return float64(count) / end.Sub(start).Seconds(), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// latency appends jobs to an idle queue one at a time and returns the median time until the handler has a job, in
// milliseconds.
func latency(ctx context.Context, e queue.Engine, count int) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := put(ctx, e, queueName, leaky.Unlimited); err != nil {
		return 0, err
	}
	arrived := make(chan time.Time, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- drain.Run(ctx, e, drain.HandlerFunc(func(context.Context, *drain.Job) error {
			arrived <- time.Now()
			return nil
		}), drain.Options{})
	}()
	var took []float64
	for range count {
		start := time.Now()
		if err := appendOne(ctx, e, queueName); err != nil {
			return 0, err
		}
		select {
		case at := <-arrived:
			took = append(took, at.Sub(start).Seconds()*1000)
		case err := <-ended:
			return 0, fmt.Errorf("the drainer ended: %w", err)
		case <-time.After(5 * time.Second):
			return 0, fmt.Errorf("a job did not arrive within 5 s")
		}
		select { // wait for the settlement, so that the queue is idle again
		case <-time.After(3 * time.Millisecond):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	cancel()
	return median(took[1:]), <-ended
}

var idleRedis = Figure{
	Name: "idle-redis", Unit: "ms, append to handler, p50, idle queue",
	Floor: "a Redis round trip", Goal: "under 2 ms",
	Met: func(ours, _, _ float64) bool { return ours < 2 },
	Setup: func(ctx context.Context) (Measurements, error) {
		s, err := newRedisStore(ctx)
		if err != nil {
			return Measurements{}, err
		}
		return Measurements{
			Ours: func(ctx context.Context) (float64, error) { return latency(ctx, s.engine, steps(200)) },
			Floor: func(ctx context.Context) (float64, error) {
				var took []float64
				for range steps(200) {
					start := time.Now()
					if err := s.client.Ping(ctx).Err(); err != nil {
						return 0, err
					}
					took = append(took, time.Since(start).Seconds()*1000)
				}
				return median(took), nil
			},
			Close: s.Close,
		}, nil
	},
}
