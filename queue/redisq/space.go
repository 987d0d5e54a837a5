package redisq

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/queue"
)

// How much of a server's memory appends leave free, as in memory.lua.
const (
	memoryMargin = 10 // a tenth
	mostMargin   = 1 << 30
)

// Space implements queue.Specs.
func (e *Engine) Space(ctx context.Context) (queue.Space, error) {
	c, ok := e.client.(*redis.ClusterClient)
	if !ok {
		return spaceOf(ctx, e.client)
	}
	var mu sync.Mutex // ForEachMaster calls from several goroutines
	var fullest queue.Space
	err := c.ForEachMaster(ctx, func(ctx context.Context, m *redis.Client) error {
		s, err := spaceOf(ctx, m)
		mu.Lock()
		defer mu.Unlock()
		used := func(s queue.Space) float64 { return float64(s.Used) / float64(s.Limit) }
		if fullest.Limit == 0 || s.Limit > 0 && used(s) > used(fullest) {
			fullest = s
		}
		return err
	})
	return fullest, err
}

func spaceOf(ctx context.Context, c redis.Cmdable) (queue.Space, error) {
	memory, err := c.Info(ctx, "memory").Result()
	if err != nil {
		err, _ = classify(err)
		return queue.Space{}, fmt.Errorf("reading how much of redis' memory is used: %w", err)
	}
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(field(memory, name), 10, 64)
		return n
	}
	s := queue.Space{Used: number("used_memory") - number("mem_not_counted_for_evict"), Limit: number("maxmemory")}
	if s.Limit == 0 {
		s.Limit = number("total_system_memory")
	}
	s.Stop = s.Limit - min(s.Limit/memoryMargin, mostMargin)
	return s, nil
}
