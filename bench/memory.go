package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/leaky"
)

func usedMemory(ctx context.Context, c *redis.Client) (float64, error) {
	info, err := c.Info(ctx, "memory").Result()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, "used_memory:"); ok {
			return strconv.ParseFloat(strings.TrimSpace(v), 64)
		}
	}
	return 0, nil
}

// tableMemory returns the size of Redis's table of all keys.
func tableMemory(ctx context.Context, c *redis.Client) (float64, error) {
	stats, err := c.Do(ctx, "MEMORY", "STATS").Result()
	if err != nil {
		return 0, err
	}
	all, _ := stats.(map[any]any)
	db, _ := all["db.0"].(map[any]any)
	main, ok := db["overhead.hashtable.main"].(int64)
	if !ok {
		return 0, fmt.Errorf("MEMORY STATS lacks the size of the table of keys: %v", stats)
	}
	return float64(main), nil
}

var memoryWaiting = Figure{
	Name: "memory-redis", Unit: "B, memory per waiting job", Rounds: 1,
	Peer: "asynq", Floor: "key, value and sorted-set entry", Goal: "under 650 B",
	Met: func(ours, _, _ float64) bool { return ours < 650 },
	Setup: func(ctx context.Context) (Measurements, error) {
		s, err := newRedisStore(ctx)
		if err != nil {
			return Measurements{}, err
		}
		count := sized(100_000)
		grown := func(do func(context.Context) error) func(context.Context) (float64, error) {
			return func(ctx context.Context) (float64, error) {
				if err := s.again(ctx); err != nil {
					return 0, err
				}
				if err := put(ctx, s.engine, queueName, leaky.Unlimited); err != nil {
					return 0, err
				}
				before, err := usedMemory(ctx, s.client)
				if err != nil {
					return 0, err
				}
				if err := do(ctx); err != nil {
					return 0, err
				}
				after, err := usedMemory(ctx, s.client)
				return (after - before) / float64(count), err
			}
		}
		return Measurements{
			Ours: grown(func(ctx context.Context) error { return fill(ctx, s.engine, queueName, count) }),
			Peer: grown(func(ctx context.Context) error {
				c := asynqClient(s.server.Addr())
				defer func() { _ = c.Close() }()
				_, err := together(ctx, callers, count, func(context.Context) error { return enqueue(c) })
				return err
			}),
			Floor: grown(func(ctx context.Context) error {
				for range count / batch {
					if err := callMinimal(ctx, s.client, batch); err != nil {
						return err
					}
				}
				return nil
			}),
			Close: s.Close,
		}, nil
	},
}
