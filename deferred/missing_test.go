package deferred

import (
	"fmt"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/queue"
)

// A queue that is missing only briefly loses nothing.
func TestQueueMissing(t *testing.T) {
	r := newRig(t)
	noError(t, r.stream.Put(t.Context(), itemsNow("a", numbered(10))))
	m := r.readmitter()
	m.grace = time.Hour
	runReadmitter(t, m)
	await.Until(t, "it was looked for", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		w := m.paths["penstock.deferred.a"]
		return w != nil && !w.running && !w.unknown.IsZero()
	})
	putSpec(t, r, specFor("a", 100))
	m.ring("a")
	leave(t, r, 10)
	r.idle(t, "a")
	if n := len(deadLetters(t, r.stream)); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

// generation begins one of a queue's records: those there are, are of the older one.
func (r *rig) generation(t testing.TB, name string) {
	t.Helper()
	a, err := r.Readmit(t.Context(), queue.ReadmitRequest{
		Queue: name, Holder: "test", Overflow: r.stream.identity(), Empty: true, Leave: true,
	})
	if err != nil || a.Busy > 0 || a.Missing > 0 {
		t.Fatalf("%+v, %v", a, err)
	}
}

// Records of jobs that are not on the overflow are given up in time.
func TestMissing(t *testing.T) {
	r := newRig(t)
	putSpec(t, r, specFor("a", 1))
	if _, err := r.Offer(t.Context(), []queue.Job{job("a", "1"), job("a", "2"), job("a", "3")}); err != nil {
		t.Fatal(err)
	}
	r.generation(t, "a")
	r.clock.jump(queue.OrphanAfter + time.Second)
	runReadmitter(t, r.readmitter())
	await.Until(t, "given up", func() bool { return r.info(t, "a").Deferred == 0 })
	await.Until(t, "the observer knows", func() bool {
		r.seen.mu.Lock()
		defer r.seen.mu.Unlock()
		return r.seen.missing == 2
	})
	if x := one(t, newAppender(t, r, r.stream), job("a", "2")); x.Outcome != queue.Accepted {
		t.Errorf("%+v", x)
	}
}

// A job that never reached the overflow does not keep its queue's backlog alive, however many others are set aside
// meanwhile: it is given up when they have come back.
func TestMissingUnderInflow(t *testing.T) {
	r := newRig(t)
	putSpec(t, r, specFor("a", 10))
	a := newAppender(t, r, r.stream)
	defers(t, a, "a", numbered(10))
	lost, err := r.Offer(t.Context(), []queue.Job{job("a", "lost")}) // and its caller dies
	if err != nil || lost[0].Outcome != queue.SetAside {
		t.Fatalf("%+v, %v", lost, err)
	}
	leave(t, r, 10)
	r.generation(t, "a")
	runReadmitter(t, r.readmitter())
	n := 0
	for ; defers(t, a, "a", []string{fmt.Sprint("one", n)}) > 0; n++ {
		if n > 100 {
			t.Fatalf("still deferred, after %d that came back: %+v", n, r.info(t, "a"))
		}
		leave(t, r, 1)
		r.clock.jump(time.Second)
	}
	leave(t, r, 1)
	r.idle(t, "a")
	info := r.info(t, "a")
	if info.Missing != 1 || info.SetAside != int64(n+1) || info.Returned != int64(n) {
		t.Errorf("%+v, %d came back", info, n)
	}
	await.Until(t, "the observer knows", func() bool {
		r.seen.mu.Lock()
		defer r.seen.mu.Unlock()
		return r.seen.missing == 1
	})
	if x := one(t, a, job("a", "lost")); x.Outcome != queue.Accepted || x.State != queue.Waiting {
		t.Errorf("%+v", x)
	}
}
