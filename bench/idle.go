package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

// callsPerDeparture runs n drainers on one backlogged queue at 14/s and counts the Reserve calls to its partition for
// each departure.
func callsPerDeparture(ctx context.Context, s *redisStore, n int) (float64, error) {
	if err := s.again(ctx); err != nil {
		return 0, err
	}
	if err := put(ctx, s.engine, queueName, leaky.PerSecond(14)); err != nil {
		return 0, err
	}
	if err := fill(ctx, s.engine, queueName, sized(1000)); err != nil {
		return 0, err
	}
	var calls, departed atomic.Int64
	partition := s.engine.Partition(queueName)
	run, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	errs := make(chan error, n)
	for range n {
		wg.Go(func() {
			e := onlyPartition{s.engine, partition, &calls}
			if err := drain.Run(
				run, e, drain.HandlerFunc(func(context.Context, *drain.Job) error { departed.Add(1); return nil }), drain.Options{},
			); err != nil {
				errs <- err
			}
		})
	}
	wait := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	wait(lasting(2 * time.Second)) // until watcher and deputy are settled
	calls0, departed0 := calls.Load(), departed.Load()
	wait(lasting(8 * time.Second))
	for begin := time.Now(); departed.Load() == departed0 && time.Since(begin) < patience && ctx.Err() == nil; {
		wait(10 * time.Millisecond) // a short span on a busy machine
	}
	c, d := calls.Load()-calls0, departed.Load()-departed0
	cancel()
	wg.Wait()
	select {
	case err := <-errs:
		return 0, err
	default:
	}
	if d == 0 {
		return 0, fmt.Errorf("nothing departed")
	}
	return float64(c) / float64(d), nil
}

// onlyPartition counts the Reserve calls to one partition.
type onlyPartition struct {
	queue.Engine
	partition int
	calls     *atomic.Int64
}

func (o onlyPartition) Reserve(ctx context.Context, r queue.ReserveRequest) (queue.Reserved, error) {
	if r.Partition == o.partition {
		o.calls.Add(1)
	}
	return o.Engine.Reserve(ctx, r)
}

var reserveCalls = Figure{
	Name: "reserve-calls", Unit: "calls of Reserve per departure, 16 drainers, 14/s", Rounds: 1,
	Floor: "1 drainer", Goal: "grow by less than 2 x",
	Met: func(ours, _, floor float64) bool { return ours < 2*floor },
	Setup: func(ctx context.Context) (Measurements, error) {
		s, err := newRedisStore(ctx)
		if err != nil {
			return Measurements{}, err
		}
		var four float64
		return Measurements{
			Ours: func(ctx context.Context) (float64, error) {
				if four, err = callsPerDeparture(ctx, s, 4); err != nil {
					return 0, err
				}
				return callsPerDeparture(ctx, s, 16)
			},
			Floor: func(ctx context.Context) (float64, error) { return callsPerDeparture(ctx, s, 1) },
			Notes: func() string { return fmt.Sprintf("4 drainers: %.2f", four) },
			Close: s.Close,
		}, nil
	},
}

var idleQueues = Figure{
	Name: "idle-100000-queues", Unit: "commands/s, sent to Redis by an idle drainer, 100,000 queues", Rounds: 1,
	Goal: "under 20 commands/s and 1% of a core",
	Met:  func(ours, _, _ float64) bool { return ours < 20 && idleShare < 0.01 },
	Setup: func(ctx context.Context) (Measurements, error) {
		s, err := newRedisStore(ctx)
		if err != nil {
			return Measurements{}, err
		}
		m := Measurements{Close: s.Close}
		var next atomic.Int64
		_, err = together(ctx, callers, sized(100_000), func(ctx context.Context) error {
			return put(ctx, s.engine, fmt.Sprintf("q%07d", next.Add(1)), leaky.PerSecond(14))
		})
		if err != nil {
			return m, err
		}
		m.Ours = func(ctx context.Context) (float64, error) { return idle(ctx, s) }
		m.Notes = func() string { return fmt.Sprintf("%.2f%% of a core", 100*idleShare) }
		return m, nil
	},
}

// idleShare is the share of a core that the idle drainer used.
var idleShare float64

// hook counts the commands of one client.
type hook struct{ commands atomic.Int64 }

func (h *hook) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h *hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.commands.Add(1)
		return next(ctx, cmd)
	}
}

func (h *hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.commands.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}

func idle(ctx context.Context, s *redisStore) (float64, error) {
	client := redis.NewClient(&redis.Options{Addr: s.server.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	defer func() { _ = client.Close() }()
	h := &hook{}
	client.AddHook(h)
	e, err := redisq.OpenClient(ctx, client, redisq.Options{})
	if err != nil {
		return 0, err
	}
	defer func() { _ = e.Close() }()
	run, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- drain.Run(run, e, drain.HandlerFunc(func(context.Context, *drain.Job) error { return nil }), drain.Options{})
	}()
	wait := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	wait(lasting(3 * time.Second))
	span := lasting(10 * time.Second)
	commands, used := h.commands.Load(), cpu()
	wait(span)
	commands, used = h.commands.Load()-commands, cpu()-used
	idleShare = used.Seconds() / span.Seconds()
	cancel()
	return float64(commands) / span.Seconds(), <-ended
}
