package main

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// deepStep runs an operation on a queue without changing its depth, and returns the time that the operation took.
type deepStep func(ctx context.Context, s *redisStore, n uint64) (time.Duration, error)

const deepBatch = 100

func reserveSome(ctx context.Context, s *redisStore, n uint64) (queue.Reserved, time.Duration, error) {
	start := time.Now()
	r, err := s.engine.Reserve(ctx, queue.ReserveRequest{
		Partition: s.engine.Partition(queueName), Client: queue.Client{ID: "bench"}, Number: n, Max: deepBatch,
	})
	took := time.Since(start)
	if err == nil && len(r.Jobs) != deepBatch {
		err = fmt.Errorf("reserved %d of %d", len(r.Jobs), deepBatch)
	}
	return r, took, err
}

func settleAll(ctx context.Context, s *redisStore, r queue.Reserved) (time.Duration, error) {
	var out []queue.Settlement
	for _, j := range r.Jobs {
		out = append(out, queue.Settlement{
			Lease: queue.Lease{Queue: j.Queue, ID: j.ID, Fence: j.Fence}, Verdict: queue.Deliver,
		})
	}
	start := time.Now()
	_, err := s.engine.Settle(ctx, out)
	return time.Since(start), err
}

func deepCycle(pick func(appended, reserved, settled time.Duration) time.Duration) deepStep {
	return func(ctx context.Context, s *redisStore, n uint64) (time.Duration, error) {
		start := time.Now()
		if err := appendMany(ctx, s.engine, queueName, deepBatch); err != nil {
			return 0, err
		}
		appended := time.Since(start)
		r, reserved, err := reserveSome(ctx, s, n)
		if err != nil {
			return 0, err
		}
		settled, err := settleAll(ctx, s, r)
		return pick(appended, reserved, settled), err
	}
}

var (
	deepAppend  = deepCycle(func(a, _, _ time.Duration) time.Duration { return a })
	deepReserve = deepCycle(func(_, r, _ time.Duration) time.Duration { return r })
	deepSettle  = deepCycle(func(_, _, s time.Duration) time.Duration { return s })
)

// deepQueue compares an operation of 100 jobs at depths of a million and a thousand.
func deepQueue(name string, step deepStep) Figure {
	return Figure{
		Name: "deep-" + name, Unit: "us, " + name + " of 100 jobs, 1,000,000 deep",
		Floor: "at 1,000 deep", Goal: "within 1.5 x of the floor",
		Met: func(ours, _, floor float64) bool { return ours <= 1.5*floor },
		Setup: func(ctx context.Context) (Measurements, error) {
			var n uint64
			at := func(depth int) (*redisStore, func(context.Context) (float64, error), error) {
				s, err := newRedisStore(ctx)
				if err != nil {
					return nil, nil, err
				}
				// Few ended jobs are remembered, so that the number of keys stays constant. Past 2^20 keys Redis
				// doubles its table, and meanwhile an append takes 1.7 times as long at any depth.
				spec := queue.Spec{
					Name: queueName, Rate: leaky.Unlimited, Capacity: queue.MaxCapacity, Retention: queue.Retention{Max: 1000},
				}
				if _, err := s.engine.Put(ctx, spec, queue.AnyRevision); err != nil {
					return s, nil, err
				}
				if err := fill(ctx, s.engine, queueName, depth); err != nil {
					return s, nil, err
				}
				return s, func(ctx context.Context) (float64, error) {
					var took []float64
					for range steps(200) {
						n++
						d, err := step(ctx, s, n)
						if err != nil {
							return 0, err
						}
						took = append(took, float64(d.Microseconds()))
					}
					return median(took), nil
				}, nil
			}
			deep, ours, err := at(sized(1_000_000))
			if err != nil {
				return Measurements{}, err
			}
			shallow, floor, err := at(sized(1_000))
			if err != nil {
				deep.Close()
				return Measurements{}, err
			}
			return Measurements{Ours: ours, Floor: floor, Close: func() { deep.Close(); shallow.Close() }}, nil
		},
	}
}
