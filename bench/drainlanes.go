package main

import (
	"context"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

var drainLanes = Figure{
	Name: "drain-lanes-embedded", Unit: "jobs/s, 1,000,000 lanes with 1 job each, no-op handler", Rounds: 1,
	Floor: "the same in memory",
	Goal:  "30,000/s", Met: func(ours, _, _ float64) bool { return ours >= 30_000 },
	Setup: func(context.Context) (Measurements, error) {
		return Measurements{
			Ours: func(ctx context.Context) (float64, error) {
				e, closeStore, err := embedded(ctx)
				if err != nil {
					return 0, err
				}
				defer closeStore()
				return drainAllLanes(ctx, e)
			},
			Floor: func(ctx context.Context) (float64, error) {
				e, err := boltq.OpenMemory(ctx, boltq.Options{})
				if err != nil {
					return 0, err
				}
				defer func() { _ = e.Close() }()
				return drainAllLanes(ctx, e)
			},
		}, nil
	},
}

// drainAllLanes gives each lane a job and drains them.
func drainAllLanes(ctx context.Context, e *boltq.Engine) (float64, error) {
	spec := laned()
	spec.Rate, spec.Lanes, spec.MaxBytes = leaky.Unlimited, queue.Lanes{}, 8<<30
	if _, err := e.Put(ctx, spec, queue.AnyRevision); err != nil {
		return 0, err
	}
	for at := 0; at < laneCount(); at += 5000 {
		if err := appendLanes(ctx, e, at, min(5000, laneCount()-at)); err != nil {
			return 0, err
		}
	}
	return drainFor(ctx, e, laneCount(), 1024)
}
