package boltq

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/queuetest"
)

// deepen appends n jobs in bulk.
func deepen(b *bench, name string, n int) {
	const step = 2000
	payload := make([]byte, 256)
	for from := 0; from < n; from += step {
		jobs := make([]queue.Job, min(step, n-from))
		for i := range jobs {
			jobs[i] = queue.Job{Queue: name, ID: fmt.Sprintf("deep-%021d", from+i), Payload: payload}
		}
		if _, err := b.Append(context.Background(), jobs); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkAppend(b *testing.B, depth int) {
	e := start(b, Options{Now: wall})
	e.MustPut("q", "100/s", func(s *queue.Spec) { s.Capacity = queue.MaxCapacity })
	deepen(e, "q", depth)
	payload := make([]byte, 256)
	var n atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range 64 {
		wg.Go(func() {
			for {
				i := n.Add(1)
				if i > int64(b.N) {
					return
				}
				a, err := e.Append(context.Background(), []queue.Job{{
					Queue: "q", ID: fmt.Sprintf("%026d", i), Payload: payload,
				}})
				if err != nil || a[0].Outcome != queue.Accepted {
					b.Error(a, err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

func BenchmarkAppendAt1000(b *testing.B)    { benchmarkAppend(b, 1_000) }
func BenchmarkAppendAt1000000(b *testing.B) { benchmarkAppend(b, 1_000_000) }

// benchmarkDrain reserves and settles, with a no-op handler, from a queue of constant depth.
func benchmarkDrain(b *testing.B, depth int) {
	e := start(b, Options{Now: wall})
	e.MustPut("q", "unlimited", func(s *queue.Spec) { s.Capacity = queue.MaxCapacity })
	deepen(e, "q", depth+b.N)
	b.ResetTimer()
	for left := b.N; left > 0; {
		got := e.MustReserve(min(left, queue.MaxReserve))
		left -= len(got)
		e.MustSettle(queue.Deliver, got)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

func BenchmarkDrainAt1000(b *testing.B)    { benchmarkDrain(b, 1_000) }
func BenchmarkDrainAt1000000(b *testing.B) { benchmarkDrain(b, 1_000_000) }

// BenchmarkOpen opens a store of a million jobs, and reports their memory.
func BenchmarkOpen(b *testing.B) {
	e := start(b, Options{Now: wall})
	e.MustPut("q", "100/s", func(s *queue.Spec) { s.Capacity = queue.MaxCapacity })
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	deepen(e, "q", 1_000_000)
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ResetTimer()
	for range b.N {
		e.reopen()
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "B/job")
}

// BenchmarkIdle measures the time from an append into an idle queue to its grant.
func BenchmarkIdle(b *testing.B) {
	e := start(b, Options{Now: wall})
	e.MustPut("q", "100000/s")
	wake := e.Wake(b.Context())
	e.MustReserve(1)
	for i := range b.N {
		go func() { _, _ = e.Append(context.Background(), []queue.Job{enginetest.Job("q", i)}) }()
		got := e.MustReserve(1)
		for len(got) == 0 {
			select {
			case <-wake:
			case <-time.After(50 * time.Millisecond):
			}
			got = e.MustReserve(1)
		}
		b.StopTimer()
		e.MustSettle(queue.Deliver, got)
		b.StartTimer()
	}
}

func BenchmarkFind(b *testing.B) { queuetest.BenchmarkFind(b, start(b, Options{Now: wall})) }
