package redisq_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/queuetest"
	"github.com/penstock/penstock/queue/redisq"
)

func benchEngine(b *testing.B) *redisq.Engine {
	s := redistest.New(b, redistest.Options{})
	e, err := redisq.OpenClient(context.Background(), s.Client(), redisq.Options{Init: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = e.Close() })
	if _, err := e.Put(context.Background(), queue.Spec{
		Name: "emailabc", Rate: leaky.Unlimited,
		Capacity: queue.MaxCapacity,
	}, 0); err != nil {
		b.Fatal(err)
	}
	return e
}

// BenchmarkAppend: 64 callers, one job a call.
func BenchmarkAppend(b *testing.B) {
	e := benchEngine(b)
	payload := make([]byte, 256)
	var n atomic.Int64
	b.ResetTimer()
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for {
				i := n.Add(1)
				if i > int64(b.N) {
					return
				}
				a, err := e.Append(context.Background(), []queue.Job{{
					Queue: "emailabc", ID: fmt.Sprintf("%026d", i),
					Payload: payload,
				}})
				if err != nil || a[0].Outcome != queue.Accepted {
					b.Errorf("%v %v", a, err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

// BenchmarkDrain: reserve and settle, up to 250 a call.
func BenchmarkDrain(b *testing.B) {
	e := benchEngine(b)
	payload := make([]byte, 256)
	for i := 0; i < b.N; i += 500 {
		var jobs []queue.Job
		for k := i; k < min(i+500, b.N); k++ {
			jobs = append(jobs, queue.Job{Queue: "emailabc", ID: fmt.Sprintf("%026d", k), Payload: payload})
		}
		if _, err := e.Append(context.Background(), jobs); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	for n, done := uint64(1), 0; done < b.N; n++ {
		r, err := e.Reserve(context.Background(), queue.ReserveRequest{
			Partition: e.Partition("emailabc"),
			Client:    queue.Client{ID: "c"}, Number: n, Max: 250,
		})
		if err != nil {
			b.Fatal(err)
		}
		var s []queue.Settlement
		for _, j := range r.Jobs {
			s = append(s, queue.Settlement{
				Lease:   queue.Lease{Queue: j.Queue, ID: j.ID, Fence: j.Fence},
				Verdict: queue.Deliver,
			})
		}
		if _, err := e.Settle(context.Background(), s); err != nil {
			b.Fatal(err)
		}
		done += len(s)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

func BenchmarkFind(b *testing.B) { queuetest.BenchmarkFind(b, benchEngine(b)) }
