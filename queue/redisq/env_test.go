package redisq_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/test/faultproxy"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

// env is a store, and hands that work on it.
type env struct {
	t   testing.TB
	ctx context.Context
	e   *redisq.Engine
	n   uint64 // the last request number
}

// open is patient unless told otherwise: most tests are not about a Redis that is late, and the machine may be busy.
func open(t testing.TB, c redis.UniversalClient, o redisq.Options) *env {
	t.Helper()
	if o.Patience == 0 {
		o.Patience = redistest.Patience
	}
	e, err := redisq.OpenClient(context.Background(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return &env{t: t, ctx: context.Background(), e: e}
}

// proxied is a fresh store on one server or a cluster, seen through a proxy.
func proxied(t *testing.T, cluster bool) (*env, *faultproxy.Proxy) {
	t.Helper()
	var client redis.UniversalClient
	var proxy *faultproxy.Proxy
	if cluster {
		c := redistest.NewCluster(t, redistest.ClusterOptions{})
		proxy = faultproxy.New(t, c.Addrs()...)
		client = redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: c.Addrs(), Dialer: proxy.Dial, MaxRetries: -1,
			ContextTimeoutEnabled: true,
		})
	} else {
		s := redistest.New(t, redistest.Options{})
		proxy = faultproxy.New(t, s.Addr())
		client = redis.NewClient(&redis.Options{Addr: proxy.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	}
	v := open(t, client, redisq.Options{Init: true, Patience: redisq.DefaultPatience})
	t.Cleanup(func() { _ = client.Close() })
	return v, proxy
}

func (v *env) put(name string, rate leaky.Rate, change func(*queue.Spec)) {
	v.t.Helper()
	s := queue.Spec{Name: name, Rate: rate}
	if change != nil {
		change(&s)
	}
	if _, err := v.e.Put(v.ctx, s, queue.AnyRevision); err != nil {
		v.t.Fatal(err)
	}
}

func job(queueName string, i int) queue.Job {
	return queue.Job{Queue: queueName, ID: fmt.Sprintf("job-%04d", i), Payload: fmt.Appendf(nil, `{"n":%d}`, i)}
}

func (v *env) append(jobs ...queue.Job) []queue.Appended {
	v.t.Helper()
	a, err := v.e.Append(v.ctx, jobs)
	if err != nil {
		v.t.Fatal(err)
	}
	return a
}

func (v *env) request(queueName string) queue.ReserveRequest {
	v.n++
	return queue.ReserveRequest{
		Partition: v.e.Partition(queueName),
		Client:    queue.Client{ID: "client-under-test", Name: "test", Version: "1"}, Number: v.n, Max: 100,
	}
}

func (v *env) reserve(queueName string) queue.Reserved {
	v.t.Helper()
	r, err := v.e.Reserve(v.ctx, v.request(queueName))
	if err != nil {
		v.t.Fatal(err)
	}
	return r
}

func deliver(jobs ...queue.Reservation) []queue.Settlement {
	var s []queue.Settlement
	for _, j := range jobs {
		s = append(s, queue.Settlement{
			Lease:   queue.Lease{Queue: j.Queue, ID: j.ID, Fence: j.Fence},
			Verdict: queue.Deliver,
		})
	}
	return s
}

func (v *env) settle(s ...queue.Settlement) []queue.Settled {
	v.t.Helper()
	out, err := v.e.Settle(v.ctx, s)
	if err != nil {
		v.t.Fatal(err)
	}
	return out
}

func (v *env) info(name string) queue.Info {
	v.t.Helper()
	i, err := v.e.Get(v.ctx, name)
	if err != nil {
		v.t.Fatal(err)
	}
	return i
}

// drain delivers until count jobs have been, and returns how often each was.
func (v *env) drain(queueName string, count int) map[string]int {
	v.t.Helper()
	seen := map[string]int{}
	deadline := time.Now().Add(30 * time.Second)
	for len(seen) < count {
		r := v.reserve(queueName)
		for _, j := range r.Jobs {
			seen[j.ID]++
		}
		if len(r.Jobs) > 0 {
			for _, s := range v.settle(deliver(r.Jobs...)...) {
				if s.Stale || s.Err != nil {
					v.t.Fatalf("settle: %+v", s)
				}
			}
		}
		if time.Now().After(deadline) {
			v.t.Fatalf("only %d of %d jobs came out", len(seen), count)
		}
		if len(r.Jobs) == 0 {
			time.Sleep(min(r.Next, 20*time.Millisecond)) // as a drainer does
		}
	}
	return seen
}
