package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// takeEmbedded asks a meter under many keys; the peer does the same in memory, behind a mutex, and stores nothing.
var takeEmbedded = Figure{
	Name: "take-embedded", Unit: "takes/s, 64 callers, 10,000 keys, written behind",
	Peer: "leaky behind a mutex", Goal: "a tenth of memory alone",
	Met: func(ours, peer, _ float64) bool { return ours >= peer/10 },
	Setup: func(ctx context.Context) (Measurements, error) {
		e, closeStore, err := embedded(ctx)
		if err != nil {
			return Measurements{}, err
		}
		r := rules.Rule{
			Name: "r", Algorithm: leaky.AlgorithmMeter, Key: "{lane}",
			Bound: rules.Bound{Rate: leaky.PerSecond(1_000_000), Burst: 1_000},
		}
		if _, err := e.PutRule(ctx, r, queue.AnyRevision); err != nil {
			closeStore()
			return Measurements{}, err
		}
		keys := make([]string, 10_000)
		for i := range keys {
			keys[i] = fmt.Sprintf("tenant-%05d", i)
		}
		var n atomic.Uint64
		next := func() string { return keys[n.Add(1)%uint64(len(keys))] }
		var mu sync.Mutex
		meter, levels := leaky.Meter{Rate: r.Rate, Burst: r.Burst}, map[string]*leaky.Level{}
		return Measurements{
			Ours: func(ctx context.Context) (float64, error) {
				return together(ctx, callers, sized(1_000_000), func(ctx context.Context) error {
					_, err := e.Take(ctx, r.Name, []rules.Take{{Key: next()}})
					return err
				})
			},
			Peer: func(ctx context.Context) (float64, error) {
				return together(ctx, callers, sized(1_000_000), func(context.Context) error {
					key := next()
					mu.Lock()
					defer mu.Unlock()
					l := levels[key]
					if l == nil {
						l = &leaky.Level{}
						levels[key] = l
					}
					meter.Take(l, leaky.Instant(time.Now().UnixMicro()), 1)
					return nil
				})
			},
			Close: closeStore,
		}, nil
	},
}

// appendRuledEmbedded appends to a queue with two rules; the peer has no rules.
var appendRuledEmbedded = Figure{
	Name: "append-rules-embedded", Unit: "jobs/s, 64 callers, fsync before ack, two rules",
	Peer: "no rules", Goal: "0.6 x without", Met: func(ours, peer, _ float64) bool { return ours >= 0.6*peer },
	Setup: func(ctx context.Context) (Measurements, error) {
		e, closeStore, err := embedded(ctx)
		if err != nil {
			return Measurements{}, err
		}
		m := Measurements{
			Ours: func(ctx context.Context) (float64, error) {
				return together(ctx, callers, sized(50_000), func(ctx context.Context) error { return appendOne(ctx, e, "ruled") })
			},
			Peer: func(ctx context.Context) (float64, error) {
				return together(ctx, callers, sized(50_000), func(ctx context.Context) error { return appendOne(ctx, e, "plain") })
			},
			Close: closeStore,
		}
		for name, b := range map[string]rules.Rule{
			"ruled.meter": {
				Algorithm: leaky.AlgorithmMeter, Bound: rules.Bound{Rate: leaky.PerSecond(1_000_000), Burst: 1_000},
			},
			"ruled.window": {
				Algorithm: leaky.AlgorithmFixedWindow, Key: "{queue}",
				Bound: rules.Bound{Limit: leaky.MaxLimit, Period: unit.Duration(time.Minute)},
			},
		} {
			b.Name = name
			if _, err := e.PutRule(ctx, b, queue.AnyRevision); err != nil {
				return m, err
			}
		}
		if _, err := e.Put(
			ctx,
			queue.Spec{
				Name: "ruled", Rate: leaky.Unlimited, Capacity: queue.MaxCapacity, Rules: []string{"ruled.meter", "ruled.window"},
			},
			queue.AnyRevision,
		); err != nil {
			return m, err
		}
		return m, put(ctx, e, "plain", leaky.Unlimited)
	},
}
