package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/internal/coalesce"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// laneCount returns the number of lanes for figures that should not depend on it.
func laneCount() int { return sized(1_000_000) }

// laned returns a large queue whose lanes have a rate, and which remembers ended jobs for a second.
func laned() queue.Spec {
	return queue.Spec{
		Name: queueName, Capacity: queue.MaxCapacity, Retention: queue.Retention{For: unit.Duration(time.Second)},
		Deferred: queue.Deferral{MaxAge: unit.Duration(time.Second)},
		Lanes:    queue.Lanes{LaneRule: queue.LaneRule{Rate: leaky.PerSecond(10)}},
	}
}

// appendLanes appends a job to each of n lanes.
func appendLanes(ctx context.Context, e queue.Appender, from, n int) error {
	jobs := make([]queue.Job, n)
	for i := range jobs {
		jobs[i] = queue.Job{
			Queue: queueName, ID: newID(), Lane: fmt.Sprintf("tenant-%d.example.com", from+i), Payload: payload,
		}
	}
	return appendAll(ctx, e, jobs)
}

// empty lets all waiting jobs leave.
func (s *redisStore) empty(ctx context.Context) error {
	client, partition := queue.Client{ID: queue.NewID()}, s.engine.Partition(queueName)
	for n := uint64(1); ; n++ {
		r, err := s.engine.Reserve(ctx, queue.ReserveRequest{
			Partition: partition, Client: client, Number: n, Max: queue.MaxReserve,
		})
		if err != nil {
			return err
		}
		if len(r.Jobs) > 0 {
			if _, err := settleAll(ctx, s, r); err != nil {
				return err
			}
			continue
		}
		info, err := s.engine.Get(ctx, queueName)
		if err != nil || info.Size() == 0 {
			return err
		}
	}
}

// settled returns the memory that Redis uses once it no longer changes by itself.
func (s *redisStore) settled(ctx context.Context) (float64, error) {
	for last := -1.0; ; {
		if err := s.client.Do(ctx, "MEMORY", "PURGE").Err(); err != nil {
			return 0, err
		}
		used, err := usedMemory(ctx, s.client)
		if err != nil || math.Abs(used-last) < 1024 {
			return used, err
		}
		last = used
		select {
		case <-time.After(lasting(3 * time.Second)): // Redis frees expired keys and its tables gradually
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// memoryLanes gives each lane a job while 100,000 other jobs wait.
var memoryLanes = Figure{
	Name: "memory-lanes", Unit: "x, Redis memory after over before 1,000,000 lanes came and went",
	Rounds: 1,
	Goal:   "at most 1.01 x", Met: func(ours, _, _ float64) bool { return ours <= 1.01 },
	Setup: func(ctx context.Context) (Measurements, error) {
		s, err := newRedisStore(ctx)
		if err != nil {
			return Measurements{}, err
		}
		var before, most, after, tableBefore, tableAfter float64
		m := Measurements{Close: s.Close, Notes: func() string {
			return fmt.Sprintf("%.1f MB before, %.1f MB with all of them, %.1f MB after; of that Redis's own table of keys, "+
				"which it shrinks only when a tenth of it is used, has %.1f MB before and %.1f MB after",
				before/1e6, most/1e6, after/1e6, tableBefore/1e6, tableAfter/1e6)
		}}
		m.Ours = func(ctx context.Context) (float64, error) {
			if err := put(ctx, s.engine, "resident", leaky.PerSecond(1)); err != nil {
				return 0, err
			}
			if err := fill(ctx, s.engine, "resident", sized(100_000)); err != nil {
				return 0, err
			}
			if _, err := s.engine.Put(ctx, laned(), queue.AnyRevision); err != nil {
				return 0, err
			}
			var err error
			if before, err = s.settled(ctx); err != nil {
				return 0, err
			}
			if tableBefore, err = tableMemory(ctx, s.client); err != nil {
				return 0, err
			}
			for at := 0; at < laneCount(); at += coalesce.MaxItems {
				if err := appendLanes(ctx, s.engine, at, min(coalesce.MaxItems, laneCount()-at)); err != nil {
					return 0, err
				}
			}
			if most, err = usedMemory(ctx, s.client); err != nil {
				return 0, err
			}
			if err := s.empty(ctx); err != nil {
				return 0, err
			}
			if after, err = s.settled(ctx); err != nil {
				return 0, err
			}
			tableAfter, err = tableMemory(ctx, s.client)
			return after / before, err
		}
		return m, nil
	},
}

var appendLaned = Figure{
	Name: "append-lanes", Unit: "us, p99 of an append into an empty lane, 64 callers", Rounds: 5,
	Floor: "all in one lane", Goal: "within 1.5 x of the floor",
	Met: func(ours, _, floor float64) bool { return ours <= 1.5*floor },
	Setup: func(ctx context.Context) (Measurements, error) {
		s, err := newRedisStore(ctx)
		if err != nil {
			return Measurements{}, err
		}
		count := sized(100_000)
		p99 := func(lane func(i int) int) func(context.Context) (float64, error) {
			return func(ctx context.Context) (float64, error) {
				if err := s.again(ctx); err != nil {
					return 0, err
				}
				if _, err := s.engine.Put(ctx, laned(), queue.AnyRevision); err != nil {
					return 0, err
				}
				var next atomic.Int64
				took := make([]float64, count)
				if _, err := together(ctx, callers, count, func(ctx context.Context) error {
					i := int(next.Add(1)) - 1
					start := time.Now()
					err := appendLanes(ctx, s.engine, lane(i), 1)
					took[i] = float64(time.Since(start).Microseconds())
					return err
				}); err != nil {
					return 0, err
				}
				return percentile(took, 0.99), nil
			}
		}
		return Measurements{
			Ours: p99(func(i int) int { return i }), Floor: p99(func(int) int { return 0 }), Close: s.Close,
		}, nil
	},
}

func percentile(values []float64, share float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}
