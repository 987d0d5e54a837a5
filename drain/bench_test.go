package drain_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

// BenchmarkDrainRedis drains a backlog without a rate into a handler that does
// nothing.
func BenchmarkDrainRedis(b *testing.B) {
	for _, handlers := range []int{64, 256} {
		b.Run(fmt.Sprint(handlers), func(b *testing.B) {
			s := redistest.New(b, redistest.Options{})
			e, err := redisq.OpenClient(b.Context(), s.Client(), redisq.Options{Init: true})
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			fill(b, e, b.N)
			var done atomic.Int64
			ctx, stop := context.WithCancel(b.Context())
			defer stop()
			count := countSettled{n: &done, target: int64(b.N), stop: stop}
			b.ResetTimer()
			begin := time.Now()
			err = drain.Run(ctx, e, drain.HandlerFunc(func(context.Context, *drain.Job) error { return nil }),
				drain.Options{Concurrency: handlers, Observer: &count})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/time.Since(begin).Seconds(), "jobs/s")
			b.ReportMetric(float64(b.N)/float64(count.calls.Load()), "jobs/grant")
			b.ReportMetric(float64(count.released.Load()), "released")
		})
	}
}

func fill(b *testing.B, e queue.Engine, n int) {
	b.Helper()
	if _, err := e.Put(
		b.Context(), queue.Spec{Name: "emailabc", Rate: leaky.Unlimited, Capacity: queue.MaxCapacity}, 0,
	); err != nil {
		b.Fatal(err)
	}
	payload := make([]byte, 256)
	for i := 0; i < n; i += 500 {
		var jobs []queue.Job
		for k := i; k < min(i+500, n); k++ {
			jobs = append(jobs, queue.Job{Queue: "emailabc", ID: fmt.Sprintf("%026d", k), Payload: payload})
		}
		if _, err := e.Append(b.Context(), jobs); err != nil {
			b.Fatal(err)
		}
	}
}

// countSettled stops the drainer when everything is settled.
type countSettled struct {
	drain.NoObserver
	n        *atomic.Int64
	released atomic.Int64
	calls    atomic.Int64
	target   int64
	stop     func()
}

func (c *countSettled) Settled(_ string, v queue.Verdict, _ queue.State) {
	if v == queue.Deliver && c.n.Add(1) == c.target {
		c.stop()
	}
}

func (c *countSettled) Reserved(_, _, n int, _ time.Duration, _ error) {
	if n > 0 {
		c.calls.Add(1)
	}
}

func (c *countSettled) Released(string, drain.Reason) { c.released.Add(1) }
