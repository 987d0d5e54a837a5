package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/penstock/penstock/leaky"
)

// lastingGoodput drains 1,000 queues that together ask for more than the machine can do, and compares the last part of
// the time with the best: a collapse would show.
var lastingGoodput = Figure{
	Name: "goodput-lasting", Rounds: 1,
	Unit: "x, worst over best minute of 10, 1,000 queues at 10/s with waiting jobs",
	Goal: "0.8", Met: func(ours, _, _ float64) bool { return ours >= 0.8 },
	Setup: func(ctx context.Context) (Measurements, error) {
		const minutes = 10
		queues, minute, rate := sized(1_000), lasting(time.Minute), leaky.PerSecond(10)
		s, err := newRedisStore(ctx)
		if err != nil {
			return Measurements{}, err
		}
		note := ""
		m := Measurements{Close: s.Close, Notes: func() string { return note }}
		m.Ours = func(ctx context.Context) (float64, error) {
			if err := s.again(ctx); err != nil {
				return 0, err
			}
			// No queue runs out, whatever leaves.
			each := int(minutes*minute.Seconds()*10) + 1
			if err := manyQueues(ctx, s.engine, queues, each, rate); err != nil {
				return 0, err
			}
			engines, done, err := s.others(ctx, 2, nil)
			defer done()
			if err != nil {
				return 0, err
			}
			seen := new(tallies)
			stop := draining(ctx, engines, seen, func() {})
			best, worst := 0.0, math.Inf(1)
			note = "departures per second, minute by minute:"
			for range minutes {
				before, began := seen.departed.Load(), time.Now()
				select {
				case <-ctx.Done():
				case <-time.After(minute):
				}
				v := float64(seen.departed.Load()-before) / time.Since(began).Seconds()
				best, worst = max(best, v), min(worst, v)
				note += fmt.Sprintf(" %.0f", v)
			}
			note += fmt.Sprintf("; %v", seen)
			return worst / best, stop()
		}
		return m, nil
	},
}
