package boltq

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/machine"
)

// live returns the size of the heap after garbage collection.
func live() int64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// With little memory, jobs are refused before it is used up, queued jobs are delivered, and then jobs are accepted
// again.
func TestLittleMemory(t *testing.T) {
	const room = 24 << 20
	limit := heapShare * (live() + room)
	b := start(t, Options{Memory: limit})
	b.MustPut("plain", "unlimited", func(s *queue.Spec) { s.Capacity = queue.MaxCapacity })
	bound := func(s *queue.Spec) { s.Capacity, s.MaxBytes = queue.MaxCapacity, queue.MostMaxBytes }
	b.MustPut("large", "unlimited", bound)
	b.MustPut("other", "unlimited", bound)
	if i := b.MustGet("plain"); i.MaxBytes != limit/4 {
		t.Errorf("a queue without max_bytes may take %d bytes of %d", i.MaxBytes, limit)
	}
	accepted := map[string]int{}
	fill := func(name string, most int) (refused error) {
		t.Helper()
		for from := accepted[name]; accepted[name] < most && refused == nil; from += 1000 {
			answers, err := b.Append(t.Context(), enginetest.Jobs(name, from, 1000))
			if err != nil && !errors.Is(err, queue.ErrStoreFull) {
				t.Fatal(err)
			}
			for _, a := range answers {
				if a.Outcome == queue.Accepted {
					accepted[name]++
				} else if refused = a.Err; refused == nil {
					t.Fatalf("%s: %+v", name, a)
				}
			}
		}
		return refused
	}
	most := 2 * room / machine.JobMemory
	if err := fill("large", most); !errors.Is(err, queue.ErrStoreFull) {
		t.Fatalf("%d of %d were accepted: %v", accepted["large"], most, err)
	}
	if n := accepted["large"]; n < most/8 {
		t.Errorf("only %d were accepted", n)
	}
	if s, err := b.Space(t.Context()); err != nil || !s.Memory || !s.Filling() {
		t.Errorf("%+v, %v", s, err)
	}
	if used := live(); used > limit*6/10 {
		t.Errorf("%d bytes live of %d", used, limit)
	}
	if err := fill("other", 1000); err != nil { // the rest is reserved for queues that took less
		t.Errorf("another queue: %v", err)
	}
	if err := fill("other", most); err == nil {
		t.Error("another queue took all")
	}
	// What maps once held stays theirs, so it is not known after how many deliveries there is room.
	for again := false; !again; {
		list := b.MustReserve(200)
		if len(list) == 0 {
			t.Fatal("all that could be delivered is, and there is no room")
		}
		b.MustSettle(queue.Deliver, list)
		b.Advance(time.Second)
		accepted["large"] += 1000
		a, err := b.Append(t.Context(), enginetest.Jobs("large", accepted["large"], 1))
		again = err == nil && a[0].Outcome == queue.Accepted
	}
}

// JobMemory is about the memory of a waiting job.
func TestJobMemory(t *testing.T) {
	const jobs = 100_000
	b := start(t, Options{})
	b.MustPut("q", "unlimited", func(s *queue.Spec) { s.Capacity = queue.MaxCapacity })
	before := live()
	for from := 0; from < jobs; from += 5000 {
		b.AppendTo("q", from, 5000)
	}
	each := float64(live()-before) / jobs
	t.Logf("%.0f bytes a job", each)
	if each > machine.JobMemory || each < machine.JobMemory/2 {
		t.Errorf("%.0f bytes a job, JobMemory is %d", each, machine.JobMemory)
	}
}
