package queuetest

import (
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

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
