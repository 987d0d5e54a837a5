package queuetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// leased sets how long leases last, and how often a job is tried.
func leased(d time.Duration, attempts int) func(*queue.Spec) {
	return func(s *queue.Spec) { s.Lease, s.Retry.MaxAttempts = unit.Duration(d), attempts }
}

var leaseRules = []rule{
	{"a lease runs from the departure; afterwards the job waits again at its turn", func(r *rig) {
		q := r.queue("q", "50/s", leased(10*time.Second, 8))
		r.accept(q, "a", "b", "c", "d")
		t0 := r.clock.Now()
		v := r.grant(q, 3, "a", "b", "c") // at 0, 20 and 40 ms
		r.clock.Set(t0.Add(10*time.Second - time.Microsecond))
		res := r.reserveAs("client", q, 1)
		r.sameIDs(res.Jobs, "d")
		if len(res.Expired) != 0 {
			r.Fatalf("taken back too early: %v", res.Expired)
		}
		r.clock.Set(t0.Add(10 * time.Second))
		res = r.reserveAs("client", q, 9)
		if !slices.Equal(res.Expired, []string{q}) {
			r.Errorf("taken back: %v, want one of q", res.Expired)
		}
		r.sameIDs(res.Jobs, "a")
		if w := res.Jobs[0]; w.Attempt != 2 || w.Fence == v[0].Fence {
			r.Errorf("the second time: %+v", w)
		}
		r.stale(settlement(queue.Deliver, v[0]))
		r.clock.Set(t0.Add(10*time.Second + 40*time.Millisecond))
		res = r.reserveAs("client", q, 9)
		if !slices.Equal(res.Expired, []string{q, q}) {
			r.Errorf("taken back: %v, want two of q", res.Expired)
		}
		r.sameIDs(res.Jobs, "b", "c")
		if i := r.info(q); i.Expired != 3 || i.Retried != 0 || i.Released != 0 {
			r.Errorf("counted: %+v", i)
		}
	}},
	{"a returning job goes before jobs appended later", func(r *rig) {
		q := r.queue("q", "unlimited", leased(10*time.Second, 8))
		r.accept(q, "a", "b", "c")
		r.grant(q, 1, "a")
		r.clock.Advance(10 * time.Second)
		r.sameIDs(r.drain(q), "a", "b", "c")
	}},
	{"a lease that runs out spends an attempt, and the last attempt ends the job", func(r *rig) {
		q := r.queue("q", "unlimited", leased(10*time.Second, 3))
		r.accept(q, "a")
		for attempt := 1; attempt <= 3; attempt++ {
			if v := r.grant(q, 9, "a"); v[0].Attempt != attempt {
				r.Errorf("attempt %d, want %d", v[0].Attempt, attempt)
			}
			r.clock.Advance(10 * time.Second)
		}
		res := r.reserveAs("client", q, 9)
		r.sameIDs(res.Jobs)
		if !slices.Equal(res.Expired, []string{q}) {
			r.Errorf("taken back: %v", res.Expired)
		}
		j := r.job(q, "a")
		if j.State != queue.Dead || j.Attempts != 3 || j.Reason != "the lease ran out" ||
			!j.EndedAt.Equal(r.clock.Now().Time()) {
			r.Errorf("got %+v", j)
		}
		if i := r.info(q); i.Dead != 1 || i.Died != 1 || i.Expired != 3 || i.Size() != 0 {
			r.Errorf("counted: %+v", i)
		}
		r.duplicate(job(q, "a"), queue.Dead, 0)
	}},
	{"the reason is kept while the job waits", func(r *rig) {
		q := r.queue("q", "10/s", leased(10*time.Second, 3))
		r.accept(q, "a", "b")
		r.grant(q, 1, "a")
		r.clock.Advance(10 * time.Second)
		r.check(r.e.Pause(r.ctx, q, queue.Pause{}))
		r.grant(q, 9) // takes leases back, paused or not
		if j := r.job(q, "a"); j.State != queue.Waiting || j.Position != 1 || j.Attempts != 1 ||
			j.Reason != "the lease ran out" {
			r.Errorf("got %+v", j)
		}
	}},
	{"a call takes back a hundred leases, the earliest deadlines first", func(r *rig) {
		q := r.queue("q", "unlimited", leased(10*time.Second, 8))
		want := numbered("j", 150)
		r.accept(q, want...)
		r.grant(q, 75, want[:75]...)
		r.clock.Advance(time.Second)
		r.grant(q, 75, want[75:]...)
		r.clock.Advance(time.Minute)
		res := r.reserveAs("client", q, queue.MaxReserve)
		r.sameIDs(res.Jobs, want[:100]...)
		if len(res.Expired) != 100 {
			r.Errorf("%d taken back", len(res.Expired))
		}
		r.deliver(res.Jobs...)
		res = r.reserveAs("client", q, queue.MaxReserve)
		r.sameIDs(res.Jobs, want[100:]...)
		if len(res.Expired) != 50 {
			r.Errorf("%d taken back", len(res.Expired))
		}
	}},
	{"until it is taken back, a lease is still valid", func(r *rig) {
		q := r.queue("q", "unlimited", leased(10*time.Second, 8))
		r.accept(q, "a", "b")
		v := r.grant(q, 2, "a", "b")
		r.clock.Advance(time.Hour)
		r.deliver(v[0])
		r.extend(v[1], 10*time.Second)
		r.grant(q, 9)
		r.deliver(v[1])
	}},
	{"extending moves the deadline to one lease from now", func(r *rig) {
		q := r.queue("q", "unlimited", leased(10*time.Second, 8))
		r.accept(q, "a")
		v := r.grant(q, 1, "a")[0]
		for range 5 {
			r.clock.Advance(9 * time.Second)
			r.extend(v, 10*time.Second)
			r.grant(q, 9)
		}
		r.clock.Advance(10*time.Second - time.Microsecond)
		r.grant(q, 9)
		r.clock.Advance(time.Microsecond)
		r.grant(q, 9, "a")
		r.extend(v, 0)
	}},
	{"extending never shortens a lease", func(r *rig) {
		q := r.queue("q", "50/s", leased(10*time.Second, 8))
		r.accept(q, "a", "b")
		t0 := r.clock.Now()
		v := r.grant(q, 2, "a", "b")[1] // departs in 20 ms
		r.extend(v, 10*time.Second+20*time.Millisecond)
		r.clock.Set(t0.Add(10 * time.Second))
		r.grant(q, 9, "a")
		r.clock.Set(t0.Add(10*time.Second + 20*time.Millisecond))
		r.grant(q, 9, "b")
	}},
	{"extending uses the lease of the current spec", func(r *rig) {
		q := r.queue("q", "unlimited", leased(10*time.Second, 8))
		r.accept(q, "a")
		v := r.grant(q, 1, "a")[0]
		r.queue(q, "unlimited", leased(time.Minute, 8))
		r.extend(v, time.Minute)
		r.clock.Advance(59 * time.Second)
		r.grant(q, 9)
		r.deliver(v)
	}},
	{"lowering the lease does not shorten a granted one", func(r *rig) {
		q := r.queue("q", "unlimited", leased(10*time.Second, 8))
		r.accept(q, "a", "b")
		t0 := r.clock.Now()
		v := r.grant(q, 2, "a", "b")
		r.queue(q, "unlimited", leased(time.Second, 8))
		r.clock.Set(t0.Add(4 * time.Second))
		r.grant(q, 9)
		r.extend(v[0], 6*time.Second) // and not the second of the new spec
		r.clock.Set(t0.Add(10*time.Second - time.Microsecond))
		r.grant(q, 9)
		r.extend(v[0], time.Second)
		r.clock.Set(t0.Add(10 * time.Second))
		r.grant(q, 9, "b") // which was not extended
		r.clock.Set(t0.Add(11*time.Second - 2*time.Microsecond))
		r.grant(q, 9)
		r.clock.Set(t0.Add(11*time.Second - time.Microsecond))
		r.grant(q, 9, "a")
		r.extend(v[0], 0)
	}},
	{"an invalid lease cannot be extended", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a", "b", "c", "d")
		v := r.grant(q, 3, "a", "b", "c")
		r.deliver(v[0])
		r.release(v[1])
		wrong := lease(v[2])
		wrong.Fence = v[1].Fence
		out, err := r.e.Extend(r.ctx, []queue.Lease{
			lease(v[0]), lease(v[1]), wrong,
			{Queue: q, ID: "d"},
			{Queue: q, ID: "nobody", Fence: "x"},
			{Queue: "nobody", ID: "a", Fence: v[2].Fence},
			{Queue: "not a name", ID: "\x00", Fence: "\xff"},
			{},
			lease(v[2]),
		})
		if err != nil || !slices.Equal(leftOf(out), []time.Duration{0, 0, 0, 0, 0, 0, 0, 0, queue.DefaultLease}) {
			r.Errorf("got %v, %v", out, err)
		}
		if out, err := r.e.Extend(r.ctx, nil); err != nil || len(out) != 0 {
			r.Errorf("extending nothing: %v, %v", out, err)
		}
	}},
	{"leases of several queues are extended in one call", func(r *rig) {
		var list []queue.Lease
		for i := range 10 {
			q := r.queue(fmt.Sprintf("q%d", i), "unlimited", leased(10*time.Second, 8))
			r.accept(q, "a")
			for _, v := range r.reserve(q, 1) {
				list = append(list, lease(v))
			}
		}
		r.clock.Advance(9 * time.Second)
		out, err := r.e.Extend(r.ctx, list)
		if err != nil || !slices.Equal(leftOf(out), slices.Repeat([]time.Duration{10 * time.Second}, len(list))) {
			r.Errorf("got %v, %v", out, err)
		}
	}},
	{"the watcher is told to ask at the deadline of a lease", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Second, 8))
		r.accept(q, "a")
		res := r.reserveAs("client", q, 9)
		r.sameIDs(res.Jobs, "a")
		if res.Next != time.Second {
			r.Errorf("next in %v, the lease runs out in 1s", res.Next)
		}
	}},
}
