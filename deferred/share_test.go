package deferred

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// For a long time twice as much comes in as leaves, half of it deferrable and half not: both kinds leave. Time plays
// no role: once the queue is full, each job that leaves is followed by one of each kind.
func TestShares(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const capacity, departures = 40, 1500
	putSpec(t, r, specFor("a", capacity))
	a := newAppender(t, r, r.stream)
	runReadmitter(t, r.readmitter())
	refused, waits := 0, 0
	inflow := func(i int) {
		rejects, defers := job("a", fmt.Sprintf("r-%d", i)), job("a", fmt.Sprintf("d-%d", i))
		rejects.Overflow = queue.Reject
		answers, err := a.Append(t.Context(), []queue.Job{rejects, defers})
		if err != nil || answers[1].Outcome != queue.Accepted {
			t.Fatal(answers, err)
		}
		if answers[0].Outcome == queue.Full {
			refused++
		}
		if answers[1].State == queue.Deferred {
			waits++
		}
	}
	for i := range capacity {
		inflow(i)
	}
	left := map[byte]int{}
	for i := range departures {
		// The places of those who may wait are full when a look found no room.
		await.Until(t, "the queue is full but for a few", func() bool { return r.info(t, "a").Waiting >= capacity-4 })
		left[leave(t, r, 1)[0][0]]++
		inflow(capacity + i)
	}
	t.Logf("left: %d that may not wait, %d that may; %d refused, %d deferred", left['r'], left['d'], refused, waits)
	if left['r'] < departures/4 || left['d'] < departures/4 {
		t.Errorf("one of them starves: %v", left)
	}
	if refused == 0 || waits < departures/2 {
		t.Error("there was no press")
	}
}

// Very many queues with deferred jobs at once: all jobs come back, and nothing of them is kept.
func TestManyQueues(t *testing.T) {
	t.Parallel()
	const queues, each = 2000, 5
	r := newRig(t)
	name := func(i int) string { return fmt.Sprintf("q%d", i) }
	var all sync.WaitGroup
	for worker := range 50 {
		all.Go(func() {
			for i := worker; i < queues; i += 50 {
				s := specFor(name(i), 4)
				s.Normalize()
				if _, err := r.Put(context.Background(), s, queue.AnyRevision); err != nil {
					t.Error(err)
				}
				for _, err := range r.stream.Put(context.Background(), itemsNow(name(i), numbered(each))) {
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	m := r.readmitter()
	runReadmitter(t, m)
	leave(t, r, queues*each)
	await.Until(t, "nothing is on the overflow", func() bool { return onStream(t, r.stream, "penstock.deferred.>") == 0 })
	await.Until(t, "nothing is looked after", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.paths) == 0
	})
	for i := range queues {
		if info := r.info(t, name(i)); info.Delivered != each || info.Deferred != 0 {
			t.Fatalf("%s: %+v", name(i), info)
		}
	}
}

// A queue that stays full does not delay others from coming back.
func TestFullDelaysNobody(t *testing.T) {
	r := newRig(t)
	a := newAppender(t, r, r.stream)
	for i := range 3 * readers {
		name := fmt.Sprintf("full%d", i)
		putSpec(t, r, specFor(name, 2))
		if err := r.Pause(t.Context(), name, queue.Pause{Reason: "stays full"}); err != nil {
			t.Fatal(err)
		}
		defers(t, a, name, numbered(20))
	}
	putSpec(t, r, specFor("free", 10))
	runReadmitter(t, r.readmitter())
	defers(t, a, "free", numbered(100))
	leave(t, r, 100)
	r.idle(t, "free")
}

// During its quiet hours a queue takes back only jobs that are too old. The others come back when the hours are over,
// or when a spec without them is put. The engine's clock decides.
func TestWindow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	now := time.Now().UTC()
	at := func(d time.Duration) string { return now.Add(d).Format("15:04") }
	spec := specFor("a", 10)
	spec.Deferred.ReadmitBetween = queue.ReadmitIn(at(2*time.Hour) + "-" + at(3*time.Hour))
	spec.Deferred.MaxAge = unit.Duration(90 * time.Minute)
	putSpec(t, r, spec)
	a := newAppender(t, r, r.stream)
	defers(t, a, "a", numbered(20))
	m := r.readmitter()
	m.pace = 50 * time.Millisecond
	runReadmitter(t, m)
	leave(t, r, 10)
	looked := func() {
		t.Helper()
		// The look that was rung for is over when a second one can be.
		for range 2 {
			m.ring("a")
			await.Until(t, "looked", func() bool {
				m.mu.Lock()
				defer m.mu.Unlock()
				w := m.paths["penstock.deferred.a"]
				return w != nil && !w.running && !w.head.IsZero()
			})
		}
	}
	looked()
	if info := r.info(t, "a"); info.Returned != 0 || info.Deferred != 10 {
		t.Errorf("%+v", info)
	}
	r.clock.jump(time.Hour) // 1h: still closed
	defers(t, a, "a", []string{"young"})
	looked()
	if info := r.info(t, "a"); info.Returned != 0 || info.Deferred != 11 {
		t.Errorf("%+v", info)
	}
	r.clock.jump(45 * time.Minute) // 1h45m: closed, and the first ten are too old
	await.Until(t, "dead though closed", func() bool { return r.info(t, "a").Dead == 10 })
	if info := r.info(t, "a"); info.Returned != 0 || info.Deferred != 1 {
		t.Errorf("%+v", info)
	}
	r.clock.jump(20 * time.Minute) // 2h5m: open
	await.Until(t, "back", func() bool { m.ring("a"); return r.info(t, "a").Waiting == 1 })
	if got := leave(t, r, 1); got[0] != "young" {
		t.Error(got)
	}
	r.idle(t, "a")

	r.clock.jump(2 * time.Hour) // closed again
	if err := r.Pause(t.Context(), "a", queue.Pause{Reason: "to fill it"}); err != nil {
		t.Fatal(err)
	}
	ids := numbered(32)[20:]
	defers(t, a, "a", ids)
	if err := r.Resume(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	leave(t, r, 10)
	looked()
	if info := r.info(t, "a"); info.Deferred != 2 {
		t.Errorf("%+v", info)
	}
	spec.Deferred.ReadmitBetween = queue.ReadmitHours{}
	putSpec(t, r, spec)
	leave(t, r, 2)
	r.idle(t, "a")
}
