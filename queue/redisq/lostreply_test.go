package redisq_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/test/faultproxy"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

// What can happen to a script between a client and Redis. The outcome must be
// the same as if nothing had.
var faults = []struct {
	name   string
	inject func(*faultproxy.Proxy, faultproxy.Match)
}{
	{"reply swallowed", func(p *faultproxy.Proxy, m faultproxy.Match) { p.SwallowNext(m) }},
	{"command lost", func(p *faultproxy.Proxy, m faultproxy.Match) { p.LoseNext(m) }},
	{"three replies swallowed", func(p *faultproxy.Proxy, m faultproxy.Match) {
		p.Inject(faultproxy.Fault{On: m, Do: faultproxy.SwallowReply, Times: 3})
	}},
	{"reply late by 150 ms", func(p *faultproxy.Proxy, m faultproxy.Match) {
		p.Inject(faultproxy.Fault{On: m, Do: faultproxy.DelayReply, By: 150 * time.Millisecond, Times: 1})
	}},
}

func TestLostReply(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"single", "cluster"} {
		t.Run(where, func(t *testing.T) {
			v, proxy := proxied(t, where == "cluster")
			for _, f := range faults {
				t.Run(f.name, func(t *testing.T) {
					v.t = t
					name := map[string]string{
						"reply swallowed": "swallowed", "command lost": "lost",
						"three replies swallowed": "thrice", "reply late by 150 ms": "late",
					}[f.name]
					v.put(name, leaky.Unlimited, nil)
					proxy.Clear()

					// Append: accepted, once, and told so.
					f.inject(proxy, faultproxy.Script("job-0001"))
					if a := v.append(job(name, 1), job(name, 2)); a[0].Outcome != queue.Accepted ||
						a[1].Outcome != queue.Accepted || a[1].Position != 2 {
						t.Errorf("append: %+v", a)
					}
					if a := v.append(job(name, 1)); a[0].Outcome != queue.Duplicate {
						t.Errorf("append again: %+v", a)
					}
					if i := v.info(name); i.Waiting != 2 || i.Appended != 2 {
						t.Errorf("after append: %d waiting, %d appended, want 2", i.Waiting, i.Appended)
					}

					// Reserve: the drainer repeats it under its number and gets the same grant.
					f.inject(proxy, faultproxy.Script("client-under-test"))
					request := v.request(name)
					r, err := v.e.Reserve(v.ctx, request)
					for tries := 0; err != nil && tries < 5; tries++ {
						if !errors.Is(err, queue.ErrOutcomeUnknown) {
							t.Fatalf("reserve: %v, want outcome unknown", err)
						}
						r, err = v.e.Reserve(v.ctx, request)
					}
					if err != nil || len(r.Jobs) != 2 || r.Jobs[0].ID != "job-0001" || r.Jobs[1].ID != "job-0002" {
						t.Fatalf("reserve: %+v, %v; want both jobs", r.Jobs, err)
					}
					if i := v.info(name); i.Leased != 2 {
						t.Errorf("%d leased, want 2", i.Leased)
					}

					// Settle: the same answer, counted once.
					f.inject(proxy, faultproxy.Script("job-0001"))
					for _, s := range v.settle(deliver(r.Jobs...)...) {
						if s.Stale || s.State != queue.Delivered {
							t.Errorf("settle: %+v", s)
						}
					}
					if i := v.info(name); i.Size() != 0 || i.Delivered != 2 {
						t.Errorf("after settle: size %d, delivered %d; want 0, 2", i.Size(), i.Delivered)
					}
				})
			}
		})
	}
}

// A caller who gives up while his jobs are under way learns that he cannot know.
func TestAppendGivenUp(t *testing.T) {
	v, proxy := proxied(t, false)
	v.put("email", leaky.Unlimited, nil)
	held := proxy.Inject(faultproxy.Fault{
		On: faultproxy.Script("job-0001"), Do: faultproxy.DelayReply, By: time.Minute,
		Times: 1,
	})
	ctx, cancel := context.WithCancel(v.ctx)
	go func() {
		_ = held.Await(v.ctx) // Redis has answered
		cancel()
	}()
	a, err := v.e.Append(ctx, []queue.Job{job("email", 1)})
	if !errors.Is(err, queue.ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
		t.Fatalf("%+v, %v; want outcome unknown", a, err)
	}
	proxy.Clear()
	if a := v.append(job("email", 1)); a[0].Outcome != queue.Duplicate {
		t.Errorf("asked again: %+v, want duplicate", a)
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	v, proxy := proxied(t, false)
	v.put("email", leaky.Unlimited, nil)
	v.append(job("email", 1))
	proxy.Refuse()
	proxy.Cut()
	started := time.Now()
	_, err := v.e.Append(v.ctx, []queue.Job{job("email", 2)})
	if !errors.Is(err, queue.ErrUnavailable) && !errors.Is(err, queue.ErrOutcomeUnknown) {
		t.Errorf("append: %v", err)
	}
	if took := time.Since(started); took > 2*redisq.DefaultPatience {
		t.Errorf("took %v to say so", took)
	}
	if err := v.e.Check(v.ctx); !errors.Is(err, queue.ErrUnavailable) {
		t.Errorf("check: %v", err)
	}
	proxy.Clear()
	if seen := v.drain("email", 1); seen["job-0001"] != 1 {
		t.Errorf("came out: %v", seen)
	}
}

// Who has the patience gets an answer that comes late.
func TestPatience(t *testing.T) {
	t.Parallel()
	s := redistest.New(t, redistest.Options{})
	proxy := faultproxy.New(t, s.Addr())
	client := redis.NewClient(&redis.Options{
		Addr: proxy.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true,
		ReadTimeout: redistest.Patience,
	})
	t.Cleanup(func() { _ = client.Close() })
	v := open(t, client, redisq.Options{Init: true, Partitions: 1})
	v.put("email", leaky.Unlimited, nil)
	v.append(job("email", 1))
	held := proxy.Inject(faultproxy.Fault{
		On: faultproxy.Script("client-under-test"), Do: faultproxy.DelayReply,
		By: redisq.DefaultPatience / 2, Times: 1,
	})
	if r := v.reserve("email"); len(r.Jobs) != 1 { // is tried once
		t.Errorf("%d jobs", len(r.Jobs))
	}
	if err := held.Await(v.ctx); err != nil {
		t.Error(err)
	}
	if _, err := redisq.OpenClient(v.ctx, client, redisq.Options{Patience: -1}); err == nil ||
		!strings.Contains(err.Error(), "patience -1ns") {
		t.Errorf("a negative patience: %v", err)
	}
}
