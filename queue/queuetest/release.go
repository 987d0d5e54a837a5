package queuetest

import (
	"time"

	"github.com/penstock/penstock/queue"
)

var releaseRules = []rule{
	{"a released job keeps its turn and its attempts", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a", "b", "c", "d")
		v := r.grant(q, 3, "a", "b", "c")
		r.release(v[2], v[0])
		if a := r.outcome(queue.Duplicate, job(q, "c")); a.Position != 2 {
			r.Errorf("position %d, want 2", a.Position)
		}
		w := r.grant(q, 9, "a", "c", "d")
		if w[0].Attempt != 1 || w[0].Fence == v[0].Fence {
			r.Errorf("got %+v", w[0])
		}
		if i := r.info(q); i.Released != 2 || i.Retried != 0 || i.Leased != 4 {
			r.Errorf("counted %+v", i)
		}
		if j := r.job(q, "a"); j.Attempts != 0 {
			r.Errorf("attempts %d", j.Attempts)
		}
	}},
	{"the slot of the latest departure is used again", func(r *rig) {
		q := r.queue("q", "100/s")
		r.accept(q, numbered("j", 20)...)
		v := r.reserve(q, 99) // 0, 10, ... 50 ms
		r.release(v[5])
		w := r.grant(q, 99, "j00006")
		if w[0].In != v[5].In {
			r.Errorf("departs in %v, the free slot is in %v", w[0].In, v[5].In)
		}
		r.release(w[0])
		r.settled(queue.Waiting, settlement(queue.Release, w[0]))
		if w = r.grant(q, 99, "j00006"); w[0].In != v[5].In {
			r.Errorf("given back once more, departs in %v", w[0].In)
		}
		r.deliver(append(v[:5:5], w...)...)
	}},
	{"an earlier slot is lost, never saved up", func(r *rig) {
		q := r.queue("q", "100/s")
		r.accept(q, numbered("j", 20)...)
		v := r.reserve(q, 99)
		r.release(v[2], v[3])
		r.grant(q, 99)
		r.clock.Advance(10 * time.Millisecond)
		w := r.grant(q, 99, "j00003")
		if w[0].In != 50*time.Millisecond {
			r.Errorf("departs in %v", w[0].In)
		}
		r.clock.Advance(30 * time.Millisecond)
		r.grant(q, 99, "j00004", "j00007", "j00008")
	}},
	{"of two released jobs, only the latest departure frees its slot", func(r *rig) {
		q := r.queue("q", "100/s")
		r.accept(q, numbered("j", 20)...)
		v := r.reserve(q, 99)
		r.release(v[5], v[4])
		w := r.grant(q, 99, "j00005")
		if w[0].In != 50*time.Millisecond {
			r.Errorf("departs in %v", w[0].In)
		}
	}},
	{"a costly job gives all of its slots back", func(r *rig) {
		q := r.queue("q", "10/s")
		j := job(q, "a")
		j.Cost = 50
		r.acceptJobs(j)
		r.accept(q, "b")
		r.release(r.grant(q, 9, "a")...)
		if w := r.grant(q, 1, "a"); w[0].In != 0 {
			r.Errorf("departs in %v", w[0].In)
		}
	}},
	{"a slot given back after its time is lost", func(r *rig) {
		q := r.queue("q", "10/s")
		r.accept(q, "a", "b", "c")
		v := r.grant(q, 9, "a")
		r.clock.Advance(time.Second)
		r.release(v...)
		r.grant(q, 9, "a") // and not b at once
		r.clock.Advance(99 * time.Millisecond)
		r.grant(q, 9, "b")
	}},
	{"a lease that ran out gives no slot back", func(r *rig) {
		q := r.queue("q", "1/m", leased(10*time.Second, 8))
		r.accept(q, "a", "b")
		r.grant(q, 9, "a")
		r.clock.Advance(10 * time.Second)
		r.grant(q, 9)
		r.clock.Advance(50 * time.Second)
		r.grant(q, 9, "a")
	}},
}
