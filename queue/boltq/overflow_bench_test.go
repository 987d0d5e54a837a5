package boltq

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/queue"
)

// BenchmarkOffer defers jobs, for 64 callers.
func BenchmarkOffer(b *testing.B) {
	e := start(b, Options{Now: wall})
	e.MustPut("q", "100/s", enginetest.Deferring(1), func(s *queue.Spec) { s.Deferred.MaxJobs = queue.MaxMaxDeferred })
	e.AppendTo("q", 0, 1)
	payload := make([]byte, 256)
	var n atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range 64 {
		wg.Go(func() {
			for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
				a, err := e.Offer(context.Background(), []queue.Job{{
					Queue: "q", ID: fmt.Sprintf("%026d", i), Payload: payload,
				}})
				if err != nil || a[0].Outcome != queue.SetAside {
					b.Error(a, err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

// BenchmarkReadmit takes jobs back into an empty queue.
func BenchmarkReadmit(b *testing.B) {
	e := start(b, Options{Now: wall})
	e.MustPut("q", "unlimited", enginetest.Deferring(1), func(s *queue.Spec) { s.Deferred.MaxJobs = queue.MaxMaxDeferred })
	e.AppendTo("q", 0, 1)
	list := make([]queue.Readmission, 0, b.N)
	for from := 0; from < b.N; from += 2000 {
		jobs := make([]queue.Job, min(2000, b.N-from))
		for i := range jobs {
			jobs[i] = queue.Job{Queue: "q", ID: fmt.Sprintf("%026d", from+i), Payload: make([]byte, 256)}
		}
		answers, err := e.Offer(context.Background(), jobs)
		if err != nil {
			b.Fatal(err)
		}
		for i, a := range answers {
			list = append(list, queue.Readmission{
				Job: jobs[i], Order: int64(len(list) + 1), Ticket: a.Ticket, At: a.At,
			})
		}
	}
	e.MustPut("q", "unlimited", enginetest.Deferring(queue.MaxCapacity))
	b.ResetTimer()
	for left := list; len(left) > 0; {
		n := min(len(left), queue.MaxReadmit)
		if m := e.ReadmitJobs("q", left[:n]...); m.Outcomes[n-1] != readmit.Returned {
			b.Fatal(m)
		}
		left = left[n:]
		b.StopTimer()
		e.MustSettle(queue.Deliver, e.MustReserve(queue.MaxReserve))
		b.StartTimer()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}
