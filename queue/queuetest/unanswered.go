package queuetest

import (
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// slowAfter is circuitAfter with probes after 1, 2, 4 and 8 s, and a limit for the duration of an attempt.
func slowAfter(failures int64, slow time.Duration) func(*queue.Spec) {
	return func(s *queue.Spec) {
		circuitAfter(failures, time.Second, 8*time.Second)(s)
		s.Circuit.Slow, s.Lease = unit.Duration(slow), unit.Duration(time.Hour)
	}
}

// counts extends leases one by one and checks the circuit's count of consecutive failures.
func (r *rig) counts(queueName string, failures int64, list ...queue.Reservation) {
	r.Helper()
	for _, v := range list {
		if e := r.extended(v); e.Effect != (queue.Effect{}) || e.Left < time.Minute {
			r.Errorf("extending %s: %+v", v.ID, e)
		}
	}
	if got := r.info(queueName).Circuit.Failures; got != failures {
		r.Errorf("%d failures are counted, want %d", got, failures)
	}
}

var slowRules = []rule{
	{"attempts without an answer for too long open the circuit", func(r *rig) {
		q := r.queue("q", "unlimited", slowAfter(2, 5*time.Second))
		r.appendNumbered(q, 9)
		v := r.grant(q, 3, "j1", "j2", "j3")
		r.clock.Advance(5*time.Second - time.Microsecond)
		r.counts(q, 0, v...)
		r.clock.Advance(time.Microsecond)
		r.counts(q, 1, v...)
		r.clock.Advance(5 * time.Second)
		now := r.clock.Now()
		if e := r.extended(v[1]); e.Effect != (queue.Effect{Opened: true, Stopped: time.Second}) {
			r.Errorf("the second did %+v", e)
		}
		r.circuit(q, 2, now, time.Second, queue.SlowReason)
		r.stops(q, now.Add(time.Second), queue.StopDown, queue.SlowReason)
		r.waitsFor(lasting(cause.Down, now.Add(time.Second), queue.SlowReason), q, "j4", "j9")
		r.grant(q, 9)
		p := r.probe(q, now.Add(time.Second))
		r.clock.Set(now.Add(5 * time.Second))
		r.counts(q, 3, v[2], p)
		if e := r.settleWith(queue.Deliver, "", 0, v[0]); e != (queue.Effect{Closed: true}) {
			r.Errorf("an answer did %+v", e)
		}
		r.circuit(q, 0, 0, 0, "")
		r.grant(q, 9, "j5", "j6", "j7", "j8", "j9")
	}},
	{"each circuit.slow that passes counts once, however many attempts are in progress", func(r *rig) {
		q := r.queue("q", "unlimited", slowAfter(9, time.Second))
		r.appendNumbered(q, 3)
		v := r.grant(q, 3, "j1", "j2", "j3")
		r.clock.Advance(time.Minute)
		r.counts(q, 1, v...)
		r.clock.Advance(time.Second - time.Microsecond)
		r.counts(q, 1, v...)
		r.clock.Advance(time.Microsecond)
		r.counts(q, 2, v...)
		s := settlement(queue.Fail, v[0])
		s.Trouble, s.After = true, time.Hour
		r.settle(s)
		r.counts(q, 3, v[1:]...)
		r.clock.Advance(time.Second)
		r.counts(q, 4, v[1])
		r.release(v[1]) // which proves nothing
		r.counts(q, 4)
		w := r.grant(q, 9, "j2")
		r.counts(q, 4, v[2])
		r.clock.Advance(time.Second)
		r.counts(q, 5, w...)
	}},
	{"a receiver that is slow but answers does not hang", func(r *rig) {
		q := r.queue("q", "unlimited", slowAfter(2, 5*time.Second))
		r.appendNumbered(q, 20)
		v := r.reserve(q, 2)
		for range 8 {
			r.clock.Advance(5 * time.Second)
			r.counts(q, 1, v...)
			r.deliver(v[0])
			r.counts(q, 0)
			v = append(v[1:], r.reserve(q, 1)...)
		}
	}},
	{"a job's own failure, or a throttled answer, resets the count like any answer", func(r *rig) {
		q := r.queue("q", "unlimited", slowAfter(9, time.Second))
		r.appendNumbered(q, 8)
		for _, verdict := range []queue.Verdict{queue.Fail, queue.Bury, queue.Throttle, queue.Deliver} {
			v := r.reserve(q, 2)
			r.clock.Advance(10 * time.Minute)
			r.counts(q, 1, v...)
			r.settleWith(verdict, "no", 0, v[0])
			r.counts(q, 0)
			r.check(r.e.Resume(r.ctx, q))
			r.release(v[1])
			r.settleWith(queue.Bury, "", 0, r.reserve(q, 1)[0])
		}
	}},
	{"without a circuit, and for workers, nothing is too slow", func(r *rig) {
		for _, change := range []func(*queue.Spec){func(s *queue.Spec) { s.Circuit.Off = true }, pulled} {
			q := r.queue("q", "unlimited", slowAfter(1, time.Second), change)
			r.accept(q, "a")
			request := r.request("client", q, 1)
			if r.info(q).Spec.Pull {
				request = r.pulling("client", q, 1)
			}
			v := r.do(request).Jobs
			r.sameIDs(v, "a")
			r.clock.Advance(time.Minute)
			r.counts(q, 0, v...)
			r.deliver(v...)
			r.check(r.e.Delete(r.ctx, q, queue.AnyRevision, false))
		}
	}},
	{"a hanging child stops alone", func(r *rig) {
		r.queue("g", "unlimited")
		a := r.queue("g.a", "unlimited", slowAfter(1, time.Second))
		b := r.queue("g.b", "unlimited", slowAfter(1, time.Second))
		r.accept(a, "a1", "a2")
		r.accept(b, "b1", "b2")
		v := r.grant(a, 1, "a1")
		r.clock.Advance(time.Second)
		if e := r.extended(v[0]).Effect; !e.Opened {
			r.Errorf("extending did %+v", e)
		}
		r.sameIDs(r.drain(b), "b1", "b2")
		r.grant(a, 9)
		r.deliver(v...)
		r.grant(a, 9, "a2")
	}},
}

// unreachable settles a job whose target could not even be reached.
func (r *rig) unreachable(v queue.Reservation) {
	r.Helper()
	s := settlement(queue.Down, v)
	s.Reason, s.Unused = "connection refused", true
	r.settled(queue.Waiting, s)
}

func circuit(failures int64, least, most time.Duration) func(*queue.Spec) {
	return func(s *queue.Spec) {
		s.Circuit = queue.Circuit{Failures: failures, MinProbe: unit.Duration(least), MaxProbe: unit.Duration(most)}
	}
}

// A departure within a horizon of the creation of the limits may not have been counted; hence the seconds.

var unusedRules = []rule{
	{"a target that refuses connections uses up no quota", func(r *rig) {
		q := r.queue("q", "unlimited", limited("quota 20/h"), circuit(5, time.Second, time.Minute))
		r.clock.Advance(time.Second)
		r.accept(q, numbered("j", 30)...)
		for range 40 { // for most of the hour
			got := r.reserve(q, 1)
			if len(got) != 1 {
				r.Fatalf("nothing is granted, %d are used", r.info(q).Limits[0].Window.Used)
			}
			r.unreachable(got[0])
			r.used(q, 0)
			if stop := r.info(q).Stop; stop.On() {
				r.clock.Set(instantOf(stop.Until))
			}
		}
		r.deliver(r.reserve(q, 1)...) // a probe that succeeds
		for range 19 {
			r.deliver(r.reserve(q, 1)...)
		}
		r.used(q, 20)
		if got := r.reserve(q, 9); len(got) != 0 || r.info(q).Delivered != 20 {
			r.Errorf("%v leave beyond the quota, %d were delivered", ids(got), r.info(q).Delivered)
		}
	}},
	{"its departure is given back, if it was the last", func(r *rig) {
		q := r.queue("q", "1/h", limited("2/d"), circuit(5, time.Second, time.Minute))
		r.clock.Advance(time.Second)
		r.accept(q, "a", "b")
		r.unreachable(r.grant(q, 9, "a")[0])
		if i := r.info(q); i.Outflow != 0 || i.Down != 1 || i.Released != 0 {
			r.Errorf("counted %+v", i)
		}
		r.deliver(r.grant(q, 9, "a")...)
		r.clock.Advance(10 * time.Hour)
		r.grant(q, 9) // once is enough for both paces
		r.clock.Advance(2 * time.Hour)
		r.grant(q, 9, "b")
	}},
	{"a job that was sent keeps its departure and its part of quotas, whatever the answer", func(r *rig) {
		q := r.queue("q", "1/m", limited("quota 20/h"))
		r.clock.Advance(time.Second)
		r.accept(q, "a")
		r.settle(settlement(queue.Down, r.grant(q, 9, "a")[0]))
		r.used(q, 1)
		r.grant(q, 9)
		r.clock.Advance(time.Minute)
		r.grant(q, 9, "a")
	}},
	{"a receiver that is down for every second request gets no more requests than the quota", func(r *rig) {
		q := r.queue("q", "unlimited", limited("quota 20/h"))
		r.clock.Advance(time.Second)
		r.accept(q, numbered("j", 40)...)
		sent := 0
		for ; sent < 60; sent++ {
			got := r.reserve(q, 1)
			if len(got) == 0 {
				break
			}
			r.settle(settlement([]queue.Verdict{queue.Down, queue.Deliver}[sent%2], got[0]))
		}
		if sent != 20 {
			r.Errorf("%d requests in the hour, want 20", sent)
		}
	}},
	{"a departure from before the circuit opened is no probe of it", func(r *rig) {
		q := r.queue("q", "unlimited", limited("quota 20/h"), circuit(1, time.Second, time.Minute))
		r.clock.Advance(time.Second)
		r.accept(q, "a", "b")
		got := r.grant(q, 2, "a", "b")
		r.clock.Advance(time.Second)
		for _, v := range got {
			r.settle(settlement(queue.Down, v))
		}
		r.used(q, 2)
		r.clock.Advance(time.Minute)
		r.settle(settlement(queue.Down, r.grant(q, 1, "a")[0]))
		r.used(q, 2) // a probe
	}},
	{"where no circuit limits the attempts, a job keeps its departure and its part of quotas", func(r *rig) {
		q := r.queue("q", "1/m", limited("quota 20/h"), func(s *queue.Spec) { s.Circuit.Off = true })
		r.clock.Advance(time.Second)
		r.accept(q, "a")
		r.unreachable(r.grant(q, 9, "a")[0])
		r.used(q, 1)
		r.grant(q, 9)
	}},
	{"a refusing target without a circuit is tried as often as the quota allows", func(r *rig) {
		q := r.queue("q", "unlimited", limited("quota 20/h"), func(s *queue.Spec) { s.Circuit.Off = true })
		r.clock.Advance(time.Second)
		r.accept(q, numbered("j", 30)...)
		tries := 0
		for ; tries < 100; tries++ {
			got := r.reserve(q, 1)
			if len(got) == 0 {
				break
			}
			r.unreachable(got[0])
		}
		if tries != 20 {
			r.Errorf("tried %d times in the hour, want 20", tries)
		}
	}},
	{"the parent also gets its part back", func(r *rig) {
		r.put(spec("ses", "1/m", limited("quota 3/h")))
		r.put(spec("ses.otp", "1/m", limited("quota 2/h"), circuit(3, time.Second, time.Minute)))
		r.clock.Advance(time.Second)
		r.accept("ses.otp", "a")
		for range 2 {
			r.unreachable(r.grant("ses.otp", 9, "a")[0])
			r.used("ses", 0)
			r.used("ses.otp", 0)
		}
		r.deliver(r.grant("ses.otp", 9, "a")...)
		r.used("ses", 1)
		r.used("ses.otp", 1)
	}},
	{"a probe that fails uses nothing of quotas, but keeps its departure", func(r *rig) {
		q := r.queue("q", "1/m", limited("quota 20/h"), circuit(1, time.Second, time.Minute))
		r.clock.Advance(time.Second)
		r.accept(q, "a", "b")
		trouble := func(v queue.Reservation) {
			s := settlement(queue.Fail, v)
			s.Trouble = true
			r.settled(queue.Scheduled, s)
		}
		trouble(r.grant(q, 9, "a")[0])
		r.used(q, 1) // it was closed
		r.clock.Advance(time.Minute)
		for range 5 {
			got := r.reserve(q, 1)
			if len(got) != 1 {
				r.Fatal("no probe")
			}
			trouble(got[0])
			r.used(q, 1)
			r.grant(q, 9)
			r.clock.Advance(time.Minute)
		}
	}},
	{"cost counts", func(r *rig) {
		q := r.queue("q", "unlimited", limited("quota 20/h"))
		r.clock.Advance(time.Second)
		j := job(q, "a")
		j.Cost = 7
		r.acceptJobs(j)
		got := r.grant(q, 9, "a")
		r.used(q, 7)
		r.unreachable(got[0])
		r.used(q, 0)
	}},
	{"repeating the settlement gives nothing more back", func(r *rig) {
		q := r.queue("q", "unlimited", limited("quota 20/h"))
		r.clock.Advance(time.Second)
		r.accept(q, "a", "b", "c")
		got := r.grant(q, 2, "a", "b")
		r.unreachable(got[0])
		r.unreachable(got[0])
		r.used(q, 1)
	}},
}
