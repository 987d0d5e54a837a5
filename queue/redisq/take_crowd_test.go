package redisq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/test/faultproxy"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/redisq"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// exact are rules of the algorithms that are, each of which lets 100 through and then none for long.
func exact() []rules.Rule {
	hour := unit.Duration(time.Hour)
	slow, err := leaky.NewRate(1, time.Hour)
	if err != nil {
		panic(err)
	}
	return []rules.Rule{
		{Name: "r.meter", Key: "{lane}", Algorithm: leaky.AlgorithmMeter, Bound: rules.Bound{Rate: slow, Burst: 100}},
		{
			Name: "r.bucket", Key: "{lane}", Algorithm: leaky.AlgorithmTokenBucket,
			Bound: rules.Bound{Rate: slow, Burst: 100},
		},
		{
			Name: "r.window", Key: "{lane}", Algorithm: leaky.AlgorithmFixedWindow,
			Bound: rules.Bound{Limit: 100, Period: 366 * 24 * hour},
		},
		{
			Name: "r.log", Key: "{lane}", Algorithm: leaky.AlgorithmSlidingLog,
			Bound: rules.Bound{Limit: 100, Period: hour},
		},
		{
			Name: "r.coarse", Key: "{lane}", Algorithm: leaky.AlgorithmSlidingLog,
			Bound: rules.Bound{Limit: 100, Period: hour, Resolution: unit.Duration(time.Second)},
		},
		{
			Name: "r.places", Key: "{lane}", Algorithm: leaky.AlgorithmConcurrency,
			Bound: rules.Bound{Limit: 100, TTL: hour},
		},
	}
}

// 64 callers, half of them in another process, never pass one more than a rule allows, and never one less.
func TestTakeInACrowd(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"single", "cluster"} {
		t.Run(where, func(t *testing.T) {
			var client redis.UniversalClient
			if where == "cluster" {
				client = redistest.NewCluster(t, redistest.ClusterOptions{}).Client()
			} else {
				client = redistest.New(t, redistest.Options{}).Client()
			}
			v, other := open(t, client, redisq.Options{Init: true}), open(t, client, redisq.Options{Init: true})
			for _, r := range exact() {
				v.rule(r)
				var passed atomic.Int64
				var wg sync.WaitGroup
				for c := range 64 {
					wg.Go(func() {
						for range 4 {
							e := []*redisq.Engine{v.e, other.e}[c%2]
							got, err := e.Take(context.Background(), r.Name,
								[]rules.Take{{Key: "k"}, {Op: rules.TakePeek, Key: "k"}})
							if err != nil {
								t.Errorf("%s: %v", r.Name, err)
								return
							}
							if got[0].Allowed {
								passed.Add(1)
							}
						}
					})
				}
				wg.Wait()
				if n := passed.Load(); n != 100 {
					t.Errorf("%s: %d passed, want 100", r.Name, n)
				}
			}
		})
	}
}

// A take whose answer is lost is not asked again, by nobody: what it took is taken once.
func TestTakeWithALostReply(t *testing.T) {
	for _, where := range []string{"single", "cluster"} {
		t.Run(where, func(t *testing.T) {
			v, proxy := proxied(t, where == "cluster")
			for _, r := range exact() {
				v.rule(r)
				take := func(key string, cost int64) (rules.Taken, error) {
					q := rules.Take{Key: key, Cost: cost}
					if r.Algorithm == leaky.AlgorithmConcurrency {
						q.Lease = fmt.Sprint("place", cost)
					}
					got, err := v.e.Take(v.ctx, r.Name, []rules.Take{q})
					if err != nil {
						return rules.Taken{}, err
					}
					return got[0], got[0].Err
				}
				if _, err := take("other", 1); err != nil { // reads the rule
					t.Fatal(err)
				}
				proxy.SwallowNext(faultproxy.Script("u:" + r.Name))
				if _, err := take("k", 10); !errors.Is(err, queue.ErrOutcomeUnknown) {
					t.Errorf("%s: %v, want outcome unknown", r.Name, err)
				}
				if got, err := take("k", 1); err != nil || got.Remaining != 89 {
					t.Errorf("%s: %+v, %v; want 89 to remain", r.Name, got, err)
				}
				proxy.Clear()
			}
		})
	}
}

// What was taken under a key is gone when it is as if it had not been, so that keys which nobody asks for cost nothing.
func TestTakenKeysExpire(t *testing.T) {
	t.Parallel()
	s := redistest.New(t, redistest.Options{})
	v, c := open(t, s.Client(), redisq.Options{Init: true, Partitions: 1}), s.Client()
	before := c.DBSize(v.ctx).Val()
	short := unit.Duration(300 * time.Millisecond)
	const keys = 2000
	for _, r := range []rules.Rule{
		{
			Name: "meter", Key: "{lane}", Algorithm: leaky.AlgorithmMeter,
			Bound: rules.Bound{Rate: leaky.PerSecond(4), Burst: 1},
		},
		{
			Name: "window", Key: "{lane}", Algorithm: leaky.AlgorithmFixedWindow,
			Bound: rules.Bound{Limit: 5, Period: short},
		},
		{
			Name: "counter", Key: "{lane}", Algorithm: leaky.AlgorithmSlidingCounter,
			Bound: rules.Bound{Limit: 5, Period: short},
		},
		{Name: "log", Key: "{lane}", Algorithm: leaky.AlgorithmSlidingLog, Bound: rules.Bound{Limit: 5, Period: short}},
		{Name: "gap", Key: "{lane}", Algorithm: leaky.AlgorithmGap, Bound: rules.Bound{Period: short}},
		{
			Name: "places", Key: "{lane}", Algorithm: leaky.AlgorithmConcurrency,
			Bound: rules.Bound{Limit: 5, TTL: short},
		},
	} {
		v.rule(r)
		for from := 0; from < keys; from += rules.MaxTakes {
			takes := make([]rules.Take, rules.MaxTakes)
			for i := range takes {
				takes[i] = rules.Take{Key: fmt.Sprint("key", from+i)}
				if r.Name == "places" || r.Name == "window" {
					takes[i].Cost = 2
				}
			}
			if _, err := v.e.Take(v.ctx, r.Name, takes); err != nil {
				t.Fatal(err)
			}
		}
	}
	ofRules := int64(6*3 + 4) // a hash, a record and the specs of each, their list, the groups, and two of the audit log
	deadline := time.Now().Add(30 * time.Second)
	for left := int64(-1); left != before+ofRules; left = c.DBSize(v.ctx).Val() {
		if time.Now().After(deadline) {
			t.Fatalf("%d keys are left, want %d", left, before+ofRules)
		}
		time.Sleep(10 * time.Millisecond) // Redis looks for what has expired ten times a second
	}
}

// A key that somebody else wrote, be it of another type, counts as fresh and stops nobody.
func TestPlantedTallies(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	v, c := open(t, s.Client(), redisq.Options{Init: true, Partitions: 1}), s.Client()
	plants := map[string]func(key string) error{
		"hash":  func(key string) error { return c.HSet(v.ctx, key, "a", "b").Err() },
		"zset":  func(key string) error { return c.ZAdd(v.ctx, key, redis.Z{Member: "x", Score: 5}).Err() },
		"short": func(key string) error { return c.Set(v.ctx, key, "x", 0).Err() },
		"eleven": func(key string) error {
			return c.Set(v.ctx, key, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 0).Err()
		},
		"long": func(key string) error { return c.Set(v.ctx, key, string(make([]byte, 1000)), 0).Err() },
		"high": func(key string) error {
			return c.Set(
				v.ctx, key, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 0,
			).Err()
		},
	}
	for _, r := range exact() {
		v.rule(r)
		for name, plant := range plants {
			if _, err := v.e.Take(v.ctx, r.Name, []rules.Take{{Op: rules.TakeAnew, Key: "k"}, {Key: "k"}}); err != nil {
				t.Fatal(err)
			}
			keys, err := c.Keys(v.ctx, "ps{0}V*").Result()
			if err != nil || len(keys) == 0 {
				t.Fatal(keys, err)
			}
			for _, key := range keys {
				c.Del(v.ctx, key)
				if err := plant(key); err != nil {
					t.Fatal(err)
				}
			}
			got, err := v.e.Take(v.ctx, r.Name, []rules.Take{{Key: "k"}})
			if err != nil || got[0].Err != nil {
				t.Errorf("%s, %s planted: %+v, %v", r.Name, name, got, err)
				continue
			}
			if !got[0].Allowed && got[0].RetryAfter > 366*24*time.Hour {
				t.Errorf("%s, %s planted: %+v", r.Name, name, got[0])
			}
			if ttl := c.PTTL(v.ctx, keys[0]).Val(); ttl <= 0 {
				t.Errorf("%s, %s planted: the key stays for ever", r.Name, name)
			}
			c.Del(v.ctx, keys...)
		}
	}
}

// An out-of-memory Redis lets nothing in, and lets go.
func TestTakeOutOfMemory(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	v, c := open(t, s.Client(), redisq.Options{Init: true, Partitions: 1}), s.Client()
	r := exact()[2]
	v.rule(r)
	if _, err := v.e.Take(v.ctx, r.Name, []rules.Take{{Key: "k", Cost: 10}}); err != nil {
		t.Fatal(err)
	}
	if err := c.ConfigSet(v.ctx, "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := v.e.Take(v.ctx, r.Name, []rules.Take{{Key: "k"}}); !errors.Is(err, queue.ErrStoreFull) {
		t.Errorf("take: %v", err)
	}
	mixed := []rules.Take{{Op: rules.TakeBack, Key: "k", Cost: 4}, {Key: "k"}, {Op: rules.TakeAnew, Key: "k"}}
	got, err := v.e.Take(v.ctx, r.Name, mixed)
	if err != nil || got[0].Remaining != 93 || !errors.Is(got[1].Err, queue.ErrStoreFull) || got[2].Remaining != 99 {
		t.Errorf("%+v, %v", got, err)
	}
	// So it is when an entry is written of it.
	ctx := audit.WithActor(v.ctx, audit.Actor{Name: "unix:0"})
	got, err = v.e.Take(ctx, r.Name, append(mixed, rules.Take{Key: "l"}))
	if err != nil || got[0].Err != nil || !errors.Is(got[1].Err, queue.ErrStoreFull) || got[2].Remaining != 99 ||
		!errors.Is(got[3].Err, queue.ErrStoreFull) {
		t.Errorf("with an entry: %+v, %v", got, err)
	}
	page, err := v.e.Audit(v.ctx, audit.Request{Limit: 10, Back: true})
	if err != nil || len(page.Records) == 0 || !strings.Contains(string(page.Records[0].Text), "2 of its keys") {
		t.Errorf("%+v, %v", page.Records, err)
	}
	if err := c.ConfigSet(v.ctx, "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	if got, err = v.e.Take(ctx, r.Name, mixed); err != nil || got[1].Err != nil || !got[1].Allowed {
		t.Errorf("with memory again: %+v, %v", got, err)
	}
}
