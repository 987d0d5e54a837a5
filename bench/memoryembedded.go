package main

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

// liveHeap returns the size of this process's heap after garbage collection.
func liveHeap() float64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC() // the second run frees the objects that the first found in pools
	runtime.ReadMemStats(&s)
	return float64(s.HeapAlloc)
}

// memoryEmbedded measures the bytes of memory that an embedded store needs for each of many objects.
func memoryEmbedded(
	name, what string, most float64, measure func(context.Context, *boltq.Engine) (float64, error),
) Figure {
	return Figure{
		Name: name, Unit: "B of heap for " + what, Rounds: 1, Goal: fmt.Sprintf("under %.0f B", most),
		Met: func(ours, _, _ float64) bool { return ours < most },
		Setup: func(context.Context) (Measurements, error) {
			return Measurements{
				Ours: func(ctx context.Context) (float64, error) {
					e, done, err := embedded(ctx)
					if err != nil {
						return 0, err
					}
					defer done()
					return measure(ctx, e)
				},
				Close: func() {},
			}, nil
		},
	}
}

func memoryOfJobs(ctx context.Context, e *boltq.Engine) (float64, error) {
	const count = 1_000_000
	spec := queue.Spec{
		Name: queueName, Rate: leaky.Unlimited, Capacity: queue.MaxCapacity, MaxBytes: queue.MostMaxBytes,
	}
	if _, err := e.Put(ctx, spec, queue.AnyRevision); err != nil {
		return 0, err
	}
	before := liveHeap()
	err := fill(ctx, e, queueName, count)
	return (liveHeap() - before) / count, err
}

func memoryOfQueues(ctx context.Context, e *boltq.Engine) (float64, error) {
	const count = 100_000
	before := liveHeap()
	var made atomic.Int64
	_, err := together(ctx, callers, count, func(ctx context.Context) error {
		return put(ctx, e, fmt.Sprintf("queue-%06d", made.Add(1)), leaky.PerSecond(14))
	})
	return (liveHeap() - before) / count, err
}
