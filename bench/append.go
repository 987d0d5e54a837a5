package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
)

// minimalAppend does the least work that a bounded FIFO with identities needs: recognize the job, bound the queue, keep
// the job's place. One call may carry many jobs.
var minimalAppend = redis.NewScript(`#!lua
local n = redis.call('ZCARD', KEYS[1])
local accepted = 0
for i = 1, #ARGV, 2 do
  if n >= 100000000 then break end
  if redis.call('SET', KEYS[1] .. ARGV[i], ARGV[i + 1], 'NX') then
    redis.call('ZADD', KEYS[1], n, ARGV[i])
    n = n + 1
    accepted = accepted + 1
  end
end
return accepted`)

func callMinimal(ctx context.Context, c redis.UniversalClient, n int) error {
	args := make([]any, 0, 2*n)
	for range n {
		args = append(args, newID(), payload)
	}
	accepted, err := minimalAppend.Run(ctx, c, []string{"{floor}"}, args...).Int()
	if err == nil && accepted != n {
		err = fmt.Errorf("the minimal script accepted %d of %d", accepted, n)
	}
	return err
}

func asynqClient(addr string) *asynq.Client {
	return asynq.NewClient(asynq.RedisClientOpt{Addr: addr, PoolSize: callers})
}

func enqueue(c *asynq.Client) error {
	_, err := c.Enqueue(asynq.NewTask("mail", payload), asynq.TaskID(newID()), asynq.Queue(queueName))
	return err
}

var appendSingle = Figure{
	Name: "append-redis", Unit: "jobs/s, 64 callers, 1 job per call",
	Peer: "asynq", Floor: "minimal script, 1 job per call",
	Goal: "2 x asynq", Met: func(ours, peer, _ float64) bool { return ours >= 2*peer },
	Setup: func(ctx context.Context) (Measurements, error) {
		s, err := newRedisStore(ctx)
		if err != nil {
			return Measurements{}, err
		}
		count := sized(100_000)
		peer := asynqClient(s.server.Addr())
		floor := redis.NewClient(&redis.Options{Addr: s.server.Addr(), PoolSize: callers, MaxRetries: -1})
		s.close = append(s.close, func() { _ = peer.Close(); _ = floor.Close() })
		cpus := map[string]time.Duration{}
		timed := func(kind string, do func(context.Context) error) func(context.Context) (float64, error) {
			return func(ctx context.Context) (float64, error) {
				if err := s.again(ctx); err != nil {
					return 0, err
				}
				if err := put(ctx, s.engine, queueName, leaky.Unlimited); err != nil {
					return 0, err
				}
				before := cpu() + redisCPU(ctx, s.server)
				v, err := together(ctx, callers, count, do)
				cpus[kind] = (cpu() + redisCPU(ctx, s.server) - before) / time.Duration(count)
				return v, err
			}
		}
		return Measurements{
			Ours:  timed("ours", func(ctx context.Context) error { return appendOne(ctx, s.engine, queueName) }),
			Peer:  timed("asynq", func(context.Context) error { return enqueue(peer) }),
			Floor: timed("floor", func(ctx context.Context) error { return callMinimal(ctx, floor, 1) }),
			Notes: func() string {
				return fmt.Sprintf(
					"CPU a job, client and server together: ours %v, asynq %v, floor %v", cpus["ours"], cpus["asynq"], cpus["floor"],
				)
			},
			Close: s.Close,
		}, nil
	},
}

var appendBatch = Figure{
	Name: "append-redis-100", Unit: "jobs/s, 4 callers, 100 jobs per call",
	Floor: "minimal script, 100 jobs per call",
	Goal:  "0.8 x the floor", Met: func(ours, _, floor float64) bool { return ours >= 0.8*floor },
	Setup: func(ctx context.Context) (Measurements, error) {
		s, err := newRedisStore(ctx)
		if err != nil {
			return Measurements{}, err
		}
		calls := sized(200_000) / 100
		floor := redis.NewClient(&redis.Options{Addr: s.server.Addr(), PoolSize: 4, MaxRetries: -1})
		s.close = append(s.close, func() { _ = floor.Close() })
		batched := func(do func(context.Context) error) func(context.Context) (float64, error) {
			return func(ctx context.Context) (float64, error) {
				if err := s.again(ctx); err != nil {
					return 0, err
				}
				if err := put(ctx, s.engine, queueName, leaky.Unlimited); err != nil {
					return 0, err
				}
				v, err := together(ctx, 4, calls, do)
				return 100 * v, err
			}
		}
		return Measurements{
			Ours:  batched(func(ctx context.Context) error { return appendMany(ctx, s.engine, queueName, 100) }),
			Floor: batched(func(ctx context.Context) error { return callMinimal(ctx, floor, 100) }),
			Close: s.Close,
		}, nil
	},
}

// redisCPU returns the processor time that the server has used.
func redisCPU(ctx context.Context, s *redistest.Server) time.Duration {
	info, err := s.Client().Info(ctx, "cpu").Result()
	if err != nil {
		return 0
	}
	total := 0.0
	for line := range strings.Lines(info) {
		for _, name := range []string{"used_cpu_sys:", "used_cpu_user:"} {
			if v, ok := strings.CutPrefix(line, name); ok {
				f, _ := strconv.ParseFloat(strings.TrimSpace(v), 64)
				total += f
			}
		}
	}
	return time.Duration(total * float64(time.Second))
}
