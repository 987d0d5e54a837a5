package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// minimalTake does the least work that a limiter on Redis needs: read the tally of a key and write it.
var minimalTake = redis.NewScript(`
local v = redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', 60000)
return v`)

const (
	ruleName = "emailabc.user"
	ruleKeys = 1000 // which are used in turn
)

// wide allows everything, and is remembered.
var wide = rules.Bound{Rate: leaky.PerSecond(1000), Burst: 1_000_000}

// Bounds that are remembered for long enough to be measured.
var (
	slow   = rules.Bound{Rate: mustRate(1, time.Hour), Burst: 10}
	hourly = rules.Bound{Limit: 10_000, Period: unit.Duration(time.Hour)}
)

func mustRate(n int64, period time.Duration) leaky.Rate {
	r, err := leaky.NewRate(n, period)
	if err != nil {
		panic(err)
	}
	return r
}

func wideMeter(name string) rules.Rule {
	return rules.Rule{Name: name, Algorithm: leaky.AlgorithmMeter, Bound: wide}
}

var nextKey atomic.Int64

func ruleKey() string { return fmt.Sprintf("user-%06d@example.com", nextKey.Add(1)%ruleKeys) }

// takeOne takes without cancellation, because the peer and the floor ignore cancellation too.
func takeOne(ctx context.Context, r queue.Taker) error {
	return takeMany(context.WithoutCancel(ctx), r, 1)
}

func takeMany(ctx context.Context, r queue.Taker, n int) error {
	takes := make([]rules.Take, n)
	for i := range takes {
		takes[i].Key = ruleKey()
	}
	got, err := r.Take(ctx, ruleName, takes)
	if err != nil {
		return err
	}
	for _, g := range got {
		if g.Err != nil || !g.Allowed {
			return fmt.Errorf("a take was not allowed: %+v", g)
		}
	}
	return nil
}

// ruleTake measures one decision a call.
func ruleTake(n int, count int64) Figure {
	goal, met := "0.8 x the floor", func(ours, _, floor float64) bool { return ours >= 0.8*floor }
	if n == callers {
		goal, met = "1.5 x redis_rate", func(ours, peer, _ float64) bool { return ours >= 1.5*peer }
	}
	return Figure{
		Name: fmt.Sprintf("rule-take-%d", n), Unit: fmt.Sprintf("decisions/s, a meter, callers: %d, 1 take per call", n),
		Peer: "go-redis/redis_rate", Floor: "script of one GET and one SET", Goal: goal, Met: met,
		Setup: func(ctx context.Context) (Measurements, error) {
			s, err := newRuleStore(ctx)
			if err != nil {
				return Measurements{}, err
			}
			client := redis.NewClient(&redis.Options{Addr: s.server.Addr(), PoolSize: n, MaxRetries: -1})
			s.close = append(s.close, func() { _ = client.Close() })
			limiter := redis_rate.NewLimiter(client)
			limit := redis_rate.Limit{Rate: 1000, Burst: 1_000_000, Period: time.Second}
			timed := func(do func(context.Context) error) func(context.Context) (float64, error) {
				return func(ctx context.Context) (float64, error) { return together(ctx, n, sized(int(count)), do) }
			}
			return Measurements{
				Ours: timed(func(ctx context.Context) error { return takeOne(ctx, s.engine) }),
				Peer: timed(func(ctx context.Context) error {
					r, err := limiter.Allow(ctx, ruleKey(), limit)
					if err == nil && r.Allowed != 1 {
						err = fmt.Errorf("redis_rate refused: %+v", r)
					}
					return err
				}),
				Floor: timed(func(ctx context.Context) error {
					err := minimalTake.Run(ctx, client, []string{ruleKey()}, "12345678901").Err()
					if errors.Is(err, redis.Nil) {
						err = nil
					}
					return err
				}),
				Close: s.Close,
			}, nil
		},
	}
}

// newRuleStore makes a store with a rule.
func newRuleStore(ctx context.Context) (*redisStore, error) {
	s, err := newRedisStore(ctx)
	if err != nil {
		return nil, err
	}
	r := wideMeter(ruleName)
	r.Key = "{lane}"
	if _, err := s.engine.PutRule(ctx, r, queue.AnyRevision); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

var ruleTakeBatch = Figure{
	Name: "rule-take-batch", Unit: "decisions/s, a meter, 1 caller, 100 takes per call",
	Peer: "1 take per call", Goal: "5 x single takes", Met: func(ours, peer, _ float64) bool { return ours >= 5*peer },
	Setup: func(ctx context.Context) (Measurements, error) {
		s, err := newRuleStore(ctx)
		if err != nil {
			return Measurements{}, err
		}
		return Measurements{
			Ours: func(ctx context.Context) (float64, error) {
				v, err := together(ctx, 1, sized(100_000)/100, func(ctx context.Context) error {
					return takeMany(ctx, s.engine, 100)
				})
				return 100 * v, err
			},
			Peer: func(ctx context.Context) (float64, error) {
				return together(ctx, 1, sized(10_000), func(ctx context.Context) error { return takeOne(ctx, s.engine) })
			},
			Close: s.Close,
		}, nil
	},
}

// appendRuled measures an append under two rules, whose keys differ from job to job.
var appendRuled = Figure{
	Name: "append-rules", Unit: "jobs/s, 64 callers, 1 job per call, two rules", Floor: "without rules",
	Goal: "0.6 x without", Met: func(ours, _, floor float64) bool { return ours >= 0.6*floor },
	Setup: func(ctx context.Context) (Measurements, error) {
		s, err := newRedisStore(ctx)
		if err != nil {
			return Measurements{}, err
		}
		measured := func(ruleNames ...string) func(context.Context) (float64, error) {
			return func(ctx context.Context) (float64, error) {
				if err := s.again(ctx); err != nil {
					return 0, err
				}
				for i, name := range ruleNames {
					r := wideMeter(name)
					r.Key = []string{"{header.user}", "{header.route}"}[i]
					if _, err := s.engine.PutRule(ctx, r, queue.AnyRevision); err != nil {
						return 0, err
					}
				}
				spec := queue.Spec{Name: queueName, Rate: leaky.Unlimited, Capacity: queue.MaxCapacity, Rules: ruleNames}
				if _, err := s.engine.Put(ctx, spec, queue.AnyRevision); err != nil {
					return 0, err
				}
				return together(ctx, callers, sized(100_000), func(ctx context.Context) error {
					headers := map[string]string{"user": ruleKey(), "route": ruleKey()}
					return appendAll(ctx, s.engine, []queue.Job{{Queue: queueName, ID: newID(), Payload: payload, Headers: headers}})
				})
			}
		}
		return Measurements{Ours: measured(queueName+".user", queueName+".route"), Floor: measured(), Close: s.Close}, nil
	},
}

// ruleMemory measures how much more memory a key needs than a bare key of the same name. For a sliding log, it measures
// the memory of an entry.
func ruleMemory(a leaky.Algorithm, b rules.Bound, entries int, most float64) Figure {
	measure := "B, memory per key beyond a bare Redis key"
	if entries > 1 {
		measure = fmt.Sprintf("B, memory per entry beyond a bare key with a TTL, %d entries per key", entries)
	}
	return Figure{
		Name: fmt.Sprintf("rule-memory-%s-%d", a, entries), Unit: measure, Rounds: 1,
		Goal: fmt.Sprintf("at most %.0f B", most), Met: func(ours, _, _ float64) bool { return ours <= most },
		Setup: func(ctx context.Context) (Measurements, error) {
			s, err := newRedisStore(ctx)
			if err != nil {
				return Measurements{}, err
			}
			return Measurements{
				Ours: func(ctx context.Context) (float64, error) {
					keys := max(1, sized(100_000)/entries)
					ours, err := grownByTakes(ctx, s, rules.Rule{Name: "r", Key: "{lane}", Algorithm: a, Bound: b}, keys, entries)
					if err != nil {
						return 0, err
					}
					bare, err := grownByBareKeys(ctx, s, keys)
					return (ours - bare) / float64(keys*entries), err
				},
				Close: s.Close,
			}, nil
		},
	}
}

func grownByTakes(ctx context.Context, s *redisStore, r rules.Rule, keys, entries int) (float64, error) {
	if err := s.again(ctx); err != nil {
		return 0, err
	}
	if _, err := s.engine.PutRule(ctx, r, queue.AnyRevision); err != nil {
		return 0, err
	}
	before, err := usedMemory(ctx, s.client)
	if err != nil {
		return 0, err
	}
	for range entries {
		for from := 0; from < keys; from += rules.MaxTakes {
			takes := make([]rules.Take, min(rules.MaxTakes, keys-from))
			for i := range takes {
				takes[i].Key = fmt.Sprintf("user-%06d@example.com", from+i)
			}
			if _, err := s.engine.Take(ctx, r.Name, takes); err != nil {
				return 0, err
			}
		}
	}
	after, err := usedMemory(ctx, s.client)
	return after - before, err
}

// grownByBareKeys measures empty keys whose names are as long as ours.
func grownByBareKeys(ctx context.Context, s *redisStore, keys int) (float64, error) {
	if err := s.again(ctx); err != nil {
		return 0, err
	}
	before, err := usedMemory(ctx, s.client)
	if err != nil {
		return 0, err
	}
	for from := 0; from < keys; from += 1000 {
		if _, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := from; i < min(from+1000, keys); i++ {
				p.Set(ctx, fmt.Sprintf("ps{13}V1:%016d", i), "", time.Hour)
			}
			return nil
		}); err != nil {
			return 0, err
		}
	}
	after, err := usedMemory(ctx, s.client)
	return after - before, err
}
