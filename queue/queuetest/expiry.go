package queuetest

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// expiringJob returns a job that expires.
func expiringJob(at leaky.Instant, queueName, id string) queue.Job {
	j := job(queueName, id)
	j.ExpiresAt = at.Time()
	return j
}

// late appends jobs while their queue is paused. A running queue would refuse jobs that it expects to depart too late.
func (r *rig) late(queueName string, list ...queue.Job) {
	r.Helper()
	r.check(r.e.Pause(r.ctx, queueName, queue.Pause{}))
	r.acceptJobs(list...)
	r.check(r.e.Resume(r.ctx, queueName))
}

var expiryRules = []rule{
	{"a job departs at its deadline at the latest", func(r *rig) {
		q := r.queue("q", "10/s")
		t0 := r.clock.Now()
		const ms, us = time.Millisecond, time.Microsecond
		r.late(
			q, job(q, "a"), expiringJob(t0.Add(100*ms-us), q, "b"), expiringJob(t0.Add(100*ms), q, "c"),
			expiringJob(t0.Add(200*ms-us), q, "d"), job(q, "e"),
		)
		r.deliver(r.grant(q, 9, "a")...)
		r.clock.Set(t0.Add(50*ms - us))
		r.grant(q, 9)
		r.state(queue.Waiting, q, "b") // its departure is a microsecond beyond the horizon
		r.clock.Set(t0.Add(50 * ms))
		v := r.grant(q, 9, "c")[0] // b would leave a microsecond too late
		if r.departure(v) != t0.Add(100*ms) || !v.ExpiresAt.Equal(t0.Add(100*ms).Time()) {
			r.Errorf("c departs in %v and expires at %v", v.In, v.ExpiresAt)
		}
		r.checkJob(q, "b", seen{state: queue.Expired, cost: 1, appended: t0, ended: r.clock.Now()})
		r.deliver(v)
		r.clock.Set(t0.Add(170 * ms))
		if v := r.grant(q, 9, "e")[0]; r.departure(v) != t0.Add(200*ms) {
			r.Errorf("e departs in %v", v.In)
		}
		r.tallies(q, tally{leased: 1, appended: 5, timedOut: 2, delivered: 2})
	}},
	{"an expired job uses no slot, and the others keep their pace", func(r *rig) {
		s := spec("q", "14/s", func(s *queue.Spec) { s.Burst = 2 })
		r.put(s)
		m := mirrorOf(s)
		var list []queue.Job
		for i, id := range numbered("j", 90) {
			j := costing(int64(1+i%3), s.Name, id)
			if i%3 != 1 {
				j.ExpiresAt = r.clock.Now().Add(time.Second).Time()
			}
			list = append(list, j)
		}
		r.check(r.e.Pause(r.ctx, s.Name, queue.Pause{}))
		r.acceptJobs(list...)
		r.clock.Advance(time.Minute)
		r.check(r.e.Resume(r.ctx, s.Name))
		r.follow(m, s.Name, 30)
		r.tallies(s.Name, tally{appended: 90, timedOut: 60, delivered: 30})
	}},
	{"a raised rate saves a job that would have departed too late", func(r *rig) {
		q := r.queue("q", "1/h")
		r.late(
			q, job(q, "a"), expiringJob(r.clock.Now().Add(time.Minute), q, "b"),
			expiringJob(r.clock.Now().Add(time.Minute), q, "c"),
		)
		r.deliver(r.grant(q, 9, "a")...)
		r.grant(q, 9)
		r.queue(q, "1/m")
		r.grant(q, 9)
		r.clock.Advance(time.Minute - queue.Horizon)
		r.grant(q, 9, "b") // departs exactly at its deadline
		r.state(queue.Waiting, q, "c")
		r.clock.Advance(queue.Horizon)
		r.grant(q, 9)
		r.state(queue.Expired, q, "c")
	}},
	{"expired jobs count neither toward max nor among the expired leases", func(r *rig) {
		q := r.queue("q", "unlimited")
		soon := r.clock.Now().Add(time.Second)
		r.acceptJobs(
			expiringJob(soon, q, "a"), expiringJob(soon, q, "b"), job(q, "c"), expiringJob(soon, q, "d"),
			expiringJob(soon, q, "e"), job(q, "f"),
		)
		r.clock.Advance(time.Minute)
		res := r.reserveAs("client", q, 1)
		r.sameIDs(res.Jobs, "c")
		if len(res.Expired) != 0 {
			r.Errorf("leases that ran out: %v", res.Expired)
		}
		r.state(queue.Expired, q, "d") // even if no handler is free
		res = r.reserveAs("client", q, 9)
		r.sameIDs(res.Jobs, "f")
		r.tallies(q, tally{leased: 2, appended: 6, timedOut: 4})
	}},
	{"many expired jobs are all ended eventually", func(r *rig) {
		q := r.queue("q", "unlimited")
		soon := r.clock.Now().Add(time.Second)
		for _, id := range numbered("j", 350) {
			r.acceptJobs(expiringJob(soon, q, id))
		}
		r.accept(q, "last")
		r.clock.Advance(time.Minute)
		r.grant(q, 9)
		if i := r.info(q); i.TimedOut < 1 || i.TimedOut > 100 {
			r.Errorf("%d ended in one call, want some, and at most 100", i.TimedOut)
		}
		r.sameIDs(r.drain(q), "last")
		r.tallies(q, tally{appended: 351, timedOut: 350, delivered: 1})
	}},
	{"a queue whose jobs all expired is empty and lost no slots", func(r *rig) {
		q := r.queue("q", "10/s")
		r.acceptJobs(
			expiringJob(r.clock.Now().Add(time.Second), q, "a"), expiringJob(r.clock.Now().Add(2*time.Second), q, "b"),
		)
		r.clock.Advance(time.Minute)
		res := r.reserveAs("client", q, 9)
		r.sameIDs(res.Jobs)
		if res.Next != 2*time.Second || res.Lost[q] != 0 {
			r.Errorf("next in %v, lost %v", res.Next, res.Lost)
		}
		if i := r.info(q); !i.OldestWaiting.IsZero() || !i.Next.Equal(r.clock.Now().Time()) {
			r.Errorf("got %+v", i)
		}
		r.clock.Advance(time.Minute)
		r.accept(q, "c")
		if res := r.reserveAs("client", q, 9); len(res.Jobs) != 1 || res.Jobs[0].In != 0 || res.Lost[q] != 0 {
			r.Errorf("got %+v", res)
		}
	}},
	{"a failed or released job, or one whose lease ran out, may expire like any other", func(r *rig) {
		q := r.queue("q", "unlimited", leased(10*time.Second, 8))
		soon := r.clock.Now().Add(5 * time.Second)
		r.acceptJobs(
			expiringJob(soon, q, "failed"), expiringJob(soon, q, "released"), expiringJob(soon, q, "ran"),
			expiringJob(soon, q, "late"),
		)
		v := r.grant(q, 9, "failed", "released", "ran", "late")
		r.fail(time.Minute, v[0])
		r.clock.Advance(6 * time.Second)
		r.release(v[1])
		r.deliver(v[3]) // it departed in time
		r.clock.Advance(4 * time.Second)
		if res := r.reserveAs("client", q, 9); len(res.Jobs) != 0 || len(res.Expired) != 1 {
			r.Errorf("granted %v, ran out %v", ids(res.Jobs), res.Expired)
		}
		for id, want := range map[string]struct {
			attempts int
			reason   string
		}{"failed": {1, "it failed"}, "released": {0, ""}, "ran": {1, "the lease ran out"}} {
			if j := r.job(q, id); j.State != queue.Expired || j.Attempts != want.attempts || j.Reason != want.reason {
				r.Errorf("%s: %+v", id, j)
			}
		}
		r.settled(queue.Scheduled, settlement(queue.Fail, v[0])) // settled again
		r.settled(queue.Waiting, settlement(queue.Release, v[1]))
		r.stale(settlement(queue.Deliver, v[0]))
		r.stale(settlement(queue.Deliver, v[2]))
		r.tallies(q, tally{appended: 4, timedOut: 3, delivered: 1, retried: 1, ran: 1})
	}},
	{"expired jobs are remembered like delivered ones, in number and time", func(r *rig) {
		q := r.queue("q", "unlimited", remember(time.Minute), func(s *queue.Spec) { s.Retention.Max = 3 })
		expire := func(id string) {
			r.Helper()
			r.acceptJobs(expiringJob(r.clock.Now().Add(time.Microsecond), q, id))
			r.clock.Advance(time.Second)
			r.grant(q, 1)
		}
		deliver := func(id string) { r.Helper(); r.accept(q, id); r.deliver(r.grant(q, 1, id)...) }
		expire("a")
		deliver("b")
		expire("c")
		deliver("d")
		expire("e")
		r.reserve(q, 1) // gives the engine an occasion
		r.unknown(q, "a")
		r.unknown(q, "b")
		old := expiringJob(r.clock.Now().Add(-time.Second).Add(time.Microsecond), q, "e")
		r.duplicate(old, queue.Expired, 0)
		r.duplicate(job(q, "c"), queue.Expired, 0)
		r.cancels(queue.Expired, q, "e")
		other := job(q, "e")
		other.Payload = []byte("other")
		r.outcome(queue.Conflict, other)
		r.clock.Advance(time.Minute - time.Microsecond)
		r.state(queue.Expired, q, "e")
		r.clock.Advance(time.Microsecond)
		r.unknown(q, "e")
		r.outcome(queue.Accepted, other)
		if i := r.info(q); i.TimedOut != 3 || i.Dead != 0 || i.Died != 0 || i.Delivered != 2 {
			r.Errorf("counted %+v", i)
		}
	}},
	{"a deadline is kept to the microsecond", func(r *rig) {
		q := r.queue("q", "unlimited")
		at := time.Date(2031, 5, 6, 7, 8, 9, 123_456_789, time.FixedZone("east", 3*3600))
		for i, t := range []time.Time{{}, at, time.Date(2199, 12, 31, 23, 59, 59, 0, time.UTC)} {
			j := job(q, fmt.Sprint("j", i))
			j.ExpiresAt = t
			j.ContentType, j.Headers = "text/plain", map[string]string{"X": "y"}
			r.acceptJobs(j)
			v := r.grant(q, 1, j.ID)[0]
			if want := t.Truncate(time.Microsecond); !v.ExpiresAt.Equal(want) || v.ContentType != "text/plain" ||
				v.Headers["X"] != "y" {
				r.Errorf("got %+v, want it to expire at %v", v, want)
			}
		}
	}},
}
