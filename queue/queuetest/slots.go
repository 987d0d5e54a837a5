package queuetest

import (
	"fmt"
	"math"
	"time"

	"github.com/penstock/penstock/queue"
)

var lostRules = []rule{
	{"unused slots are counted as lost", func(r *rig) {
		q := r.queue("q", "10/s")
		r.accept(q, "a", "b", "c", "d", "e")
		visit := func(lost int64, want ...string) {
			r.Helper()
			res := r.reserveAs("client", q, 9)
			r.sameIDs(res.Jobs, want...)
			r.deliver(res.Jobs...)
			if res.Lost[q] != lost {
				r.Errorf("%d slots lost, want %d", res.Lost[q], lost)
			}
		}
		visit(0, "a")
		r.clock.Advance(199 * time.Millisecond)
		visit(0, "b") // 99 ms late: no whole slot
		r.clock.Advance(350 * time.Millisecond)
		visit(2, "c") // 250 ms late
		r.clock.Advance(50 * time.Millisecond)
		visit(0, "d") // ahead
		r.clock.Advance(75 * time.Millisecond)
		visit(0)
		r.clock.Advance(25*time.Millisecond + 100*time.Millisecond)
		visit(0, "e")
		r.clock.Advance(time.Hour)
		visit(0) // no job waited
		r.accept(q, "f")
		visit(0, "f")
		if i := r.info(q); i.Lost != 2 {
			r.Errorf("%d counted", i.Lost)
		}
	}},
	{"lost slots are counted exactly", func(r *rig) {
		for i, rate := range []string{"14/s", "3/s", "7/s", "49/s"} {
			q := r.queue(fmt.Sprint("g.q", i), rate)
			r.accept(q, "a")
			r.clock.Advance(time.Second)
			res := r.reserveAs("client", q, 1)
			if want := int64(math.Round(r.info(q).Spec.Rate.PerSecond())); res.Lost[q] != want {
				r.Errorf("%s: %d lost in a second, want %d", rate, res.Lost[q], want)
			}
		}
	}},
	{"an unlimited queue has no slots to lose", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a")
		r.clock.Advance(time.Hour)
		if res := r.reserveAs("client", q, 9); len(res.Lost) != 0 {
			r.Errorf("lost %v", res.Lost)
		}
	}},
	{"no slots are lost while a quota is used up, whatever arrives after that", func(r *rig) {
		for _, name := range []string{"alone", "g"} {
			r.queue(name, "10/s", limited("quota 1/m"))
			q := name
			if name == "g" {
				q = r.queue("g.a", "unlimited")
			}
			r.accept(q, "a", "b", "c")
			r.deliver(r.grant(name, 9, "a")...)
			r.clock.Advance(time.Minute + 250*time.Millisecond)
			r.accept(q, "d")
			r.clock.Advance(250 * time.Millisecond)
			if res := r.reserveAs("client", name, 1); res.Lost[name] != 5 || len(res.Jobs) != 1 {
				r.Errorf("%s: lost %v, granted %v", name, res.Lost, ids(res.Jobs))
			}
			r.clock.Advance(59*time.Second + 500*time.Millisecond)
			r.delete(q)
		}
	}},
	{"a retry loses no slots before it is due", func(r *rig) {
		q := r.queue("q", "10/s")
		r.accept(q, "a")
		r.fail(time.Minute, r.grant(q, 1, "a")...)
		r.clock.Advance(time.Minute + 250*time.Millisecond)
		res := r.reserveAs("client", q, 9)
		r.sameIDs(res.Jobs, "a")
		if res.Lost[q] != 2 {
			r.Errorf("lost %v, want 2 slots of q", res.Lost)
		}
	}},
	{"lost slots stay lost, whatever comes back", func(r *rig) {
		for i, tt := range []struct {
			what string
			do   func(queueName string, v queue.Reservation)
		}{
			{"nothing", func(string, queue.Reservation) {}},
			{"a lease that ran out", func(string, queue.Reservation) {}},
			{"a release", func(_ string, v queue.Reservation) { r.release(v) }},
			{"a failure", func(_ string, v queue.Reservation) { r.fail(time.Hour, v) }},
			{"a failure that is due at once", func(_ string, v queue.Reservation) { r.fail(0, v) }},
			{"a delivery", func(_ string, v queue.Reservation) { r.deliver(v) }},
			{"an append", func(q string, _ queue.Reservation) { r.accept(q, "late") }},
			{"a resume without a pause", func(q string, _ queue.Reservation) { r.check(r.e.Resume(r.ctx, q)) }},
		} {
			length := 5 * time.Second
			if tt.what == "nothing" {
				length = time.Hour
			}
			q := r.queue(fmt.Sprint("q", i), "10/s", leased(length, 8))
			r.accept(q, numbered("j", 20)...)
			v := r.grant(q, 9, "j00001")[0]
			r.clock.Advance(time.Minute) // nobody reserves
			tt.do(q, v)
			if res := r.reserveAs("client", q, 9); res.Lost[q] != 599 { // of 60 s, less the first 100 ms
				r.Errorf("%s: %d slots lost, want 599", tt.what, res.Lost[q])
			}
			if i := r.info(q); i.Lost != 599 {
				r.Errorf("%s: %d counted, want 599", tt.what, i.Lost)
			}
			r.delete(q)
		}
	}},
	{"successive leases that run out do not reset the count of lost slots", func(r *rig) {
		q := r.queue("q", "10/s", leased(5*time.Second, 100))
		r.accept(q, numbered("j", 200)...)
		var lost int64
		for range 10 {
			lost += r.reserveAs("client", q, 9).Lost[q]
			r.clock.Advance(time.Minute)
		}
		if i := r.info(q); lost != 9*599 || i.Lost != lost {
			r.Errorf("%d reported, %d counted, want %d", lost, i.Lost, 9*599)
		}
	}},
	{"a resume starts the count of lost slots anew", func(r *rig) {
		q := r.queue("q", "10/s")
		r.accept(q, "a", "b")
		r.clock.Advance(time.Minute)
		r.check(r.e.Pause(r.ctx, q, queue.Pause{Reason: "x"}))
		r.clock.Advance(time.Minute)
		r.check(r.e.Resume(r.ctx, q))
		r.clock.Advance(time.Second)
		if res := r.reserveAs("client", q, 9); res.Lost[q] != 10 {
			r.Errorf("%d lost in the second since, want 10", res.Lost[q])
		}
	}},
}

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
