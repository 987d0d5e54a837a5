package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/penstock/penstock/admission"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

const (
	waitRule    = "bench.waits"
	waitCallers = 4
	waitSpan    = 5 * time.Second
)

// waitFairness measures how evenly a rule serves callers that together want more than it allows, and wait.
var waitFairness = Figure{
	Name: "wait-fairness", Unit: "x, fewest over most takes among 4 waiting callers",
	Peer: "pollers", Goal: "at least 0.95",
	Met: func(ours, _, _ float64) bool { return ours >= 0.95 },
	Setup: func(ctx context.Context) (Measurements, error) {
		s, err := newRuleStore(ctx)
		if err != nil {
			return Measurements{}, err
		}
		rule := rules.Rule{Name: waitRule, Algorithm: leaky.AlgorithmMeter, Bound: rules.Bound{Rate: leaky.PerSecond(20)}}
		rule.Normalize()
		if _, err := s.engine.PutRule(ctx, rule, queue.AnyRevision); err != nil {
			s.Close()
			return Measurements{}, err
		}
		a := admission.New(s.engine, admission.Options{})
		return Measurements{
			Ours: func(ctx context.Context) (float64, error) {
				return evenness(ctx, func(ctx context.Context) error {
					_, err := a.TakeWait(ctx, waitRule, rules.Take{}, time.Hour)
					return err
				})
			},
			Peer: func(ctx context.Context) (float64, error) {
				return evenness(ctx, func(ctx context.Context) error { return poll(ctx, a) })
			},
			Close: s.Close,
		}, nil
	},
}

// evenness lets callers compete for turns for a while. It divides the fewest turns of any caller by the most turns of
// any caller.
func evenness(ctx context.Context, turn func(context.Context) error) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, lasting(waitSpan))
	defer cancel()
	var turns [waitCallers]int
	var failed [waitCallers]error
	var all sync.WaitGroup
	for i := range waitCallers {
		all.Go(func() {
			for ctx.Err() == nil {
				switch err := turn(ctx); {
				case err == nil:
					turns[i]++
				case ctx.Err() == nil:
					failed[i] = err
					return
				}
			}
		})
	}
	all.Wait()
	return float64(slices.Min(turns[:])) / float64(max(1, slices.Max(turns[:]))), errors.Join(failed[:]...)
}

// poll asks, and asks again when the answer says to, until it is allowed.
func poll(ctx context.Context, a *admission.Admission) error {
	for {
		taken, err := a.Take(ctx, waitRule, []rules.Take{{}})
		if err != nil || taken[0].Allowed {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(taken[0].RetryAfter):
		}
	}
}
