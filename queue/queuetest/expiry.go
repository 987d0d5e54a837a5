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

// lapsed appends a job that must be refused because it would depart too late, at the instant at.
func (r *rig) lapsed(j queue.Job, at leaky.Instant) {
	r.Helper()
	if a := r.outcome(queue.Lapsed, j); instantOf(a.ETA.At) != at || a.State != queue.StateNone || a.Position != 0 ||
		a.RetryAfter != 0 || a.Err != nil {
		r.Errorf("%s: refused with %+v, want it to be too late at %v", j.ID, a, at.Time())
	}
}

var deadlineRules = []rule{
	{"a job that would depart after its deadline is refused with that instant", func(r *rig) {
		const ms, us = time.Millisecond, time.Microsecond
		for i, tt := range []struct {
			rate  string
			costs []int64 // of the jobs before it
			eta   time.Duration
		}{
			{"10/s", []int64{1, 1, 1, 1, 1}, 500 * ms},
			{"10/s", []int64{3, 1, 2}, 600 * ms},
			{"3/s", []int64{1}, 333_334 * us},
			{"1/h", []int64{1, 1}, 2 * time.Hour},
		} {
			q := r.queue(fmt.Sprint("g.q", i), tt.rate)
			t0 := r.clock.Now()
			for n, cost := range tt.costs {
				r.acceptJobs(costing(cost, q, fmt.Sprint("j", n)))
			}
			r.lapsed(expiringJob(t0.Add(us), q, "a"), t0.Add(tt.eta))
			r.lapsed(expiringJob(t0.Add(tt.eta-us), q, "a"), t0.Add(tt.eta))
			// Neither refusal is remembered.
			r.tallies(q, tally{waiting: int64(len(tt.costs)), appended: int64(len(tt.costs))})
			if a := r.acceptJobs(expiringJob(t0.Add(tt.eta), q, "a"))[0]; instantOf(a.ETA.At) != t0.Add(tt.eta) ||
				!a.ETA.Exact {
				r.Errorf("got %+v", a)
			}
		}
	}},
	{"a job whose deadline has passed is refused without an instant, before other reasons", func(r *rig) {
		q := r.putWithLanes("q", "1/s", "x1 k1", withCapacity(2), everyLane(holding(1)))
		for _, j := range []queue.Job{
			expiringJob(r.clock.Now(), q, "k2"), expiringJob(r.clock.Now().Add(-time.Hour), q, "k2"),
		} {
			r.lapsed(j, 0)
			j.Lane = laneX
			r.lapsed(j, 0)
		}
		r.check(r.e.Pause(r.ctx, q, queue.Pause{}))
		r.lapsed(expiringJob(r.clock.Now(), q, "k2"), 0)
	}},
	{"a paused queue accepts it: nobody knows when the queue is resumed", func(r *rig) {
		q := r.queue("q", "1/s")
		t0 := r.clock.Now()
		r.accept(q, "a", "b")
		r.lapsed(expiringJob(t0.Add(time.Second), q, "c"), t0.Add(2*time.Second))
		r.check(r.e.Pause(r.ctx, q, queue.Pause{}))
		r.acceptJobs(expiringJob(t0.Add(time.Second), q, "c"))
		r.check(r.e.Resume(r.ctx, q))
		r.lapsed(expiringJob(t0.Add(time.Second), q, "d"), t0.Add(3*time.Second))
	}},
	{"full lanes, schedules and queues are reported first", func(r *rig) {
		q := r.putWithLanes("q", "1/s", "x1 k1 k2", withCapacity(4), mostScheduled(1), everyLane(holding(1)))
		t0 := r.clock.Now()
		soon := t0.Add(time.Millisecond)
		r.schedule(later(t0.Add(time.Minute), q, "s1"))
		j := expiringJob(soon, q, "x2")
		r.outcome(queue.Full, j)
		j.Lane = laneX
		r.outcome(queue.LaneFull, j)
		j = expiringJob(t0.Add(time.Minute), q, "s2")
		j.NotBefore = soon.Time()
		r.outcome(queue.ScheduleFull, j)
		r.cancels(queue.Cancelled, q, "s1")
		j = expiringJob(soon, q, "k3")
		r.lapsed(j, t0.Add(3*time.Second)) // x1, k1 and k2 are before it
	}},
	{"a known id is reported as known", func(r *rig) {
		q := r.queue("q", "1/s")
		t0 := r.clock.Now()
		r.acceptJobs(job(q, "a"), expiringJob(t0.Add(time.Second), q, "b"))
		r.clock.Advance(500 * time.Millisecond)
		r.duplicate(expiringJob(t0.Add(time.Second), q, "b"), queue.Waiting, 2) // now it would be too late
		r.clock.Advance(time.Minute)
		r.duplicate(expiringJob(t0.Add(time.Second), q, "b"), queue.Expired, 0)
	}},
	{"the lane, the priority and the schedule count", func(r *rig) {
		q := r.putWithLanes("q", "10/s", "x1 x2 x3 y1", except(laneX, laneRate("1/s")))
		t0 := r.clock.Now()
		by := func(d time.Duration, j queue.Job) queue.Job {
			j.ExpiresAt = t0.Add(d).Time()
			return j
		}
		const ms = time.Millisecond
		r.lapsed(by(2999*ms, jobOfLane(laneX, q, "a")), t0.Add(3*time.Second))
		r.lapsed(by(299*ms, jobOfLane(laneY, q, "a")), t0.Add(300*ms))
		r.lapsed(by(199*ms, jobOfLane(laneZ, q, "a")), t0.Add(200*ms))
		r.acceptJobs(by(100*ms, withPriority(9, laneX, q, "b"))) // the first of its lane, and y takes a turn
		s := by(300*ms, later(t0.Add(150*ms), q, "c"))
		r.schedule(s)
		s.ID, s.ExpiresAt = "d", t0.Add(199*ms).Time()
		r.lapsed(s, t0.Add(200*ms)) // a turn of x and one of y are before it
	}},
	{"an accepted job departs in time while no job comes back or overtakes it", func(r *rig) {
		q := r.queue("q", "100/s")
		accepted := 0
		for i := range 300 {
			j := costing(int64(1+i%3), q, fmt.Sprintf("j%05d", i))
			j.ExpiresAt = r.clock.Now().Add(time.Duration(100+i*7%2000) * time.Millisecond).Time()
			if a := r.append(j)[0]; a.Outcome == queue.Accepted {
				accepted++
			} else if a.Outcome != queue.Lapsed || !a.ETA.At.After(j.ExpiresAt) {
				r.Errorf("%+v", a)
			}
			if i%10 == 0 {
				r.deliver(r.reserve(q, 9)...)
				r.clock.Advance(30 * time.Millisecond)
			}
		}
		r.drain(q)
		if i := r.info(q); i.TimedOut != 0 || i.Delivered != int64(accepted) || accepted < 20 || accepted > 280 {
			r.Errorf("%d of 300 accepted, %d delivered, %d timed out", accepted, i.Delivered, i.TimedOut)
		}
	}},
	{"ten thousand waiting jobs that expire use no slot, in any lanes", func(r *rig) {
		const n = 10_000
		s := spec("q", "10/s", withCapacity(n+20))
		r.put(s)
		r.check(r.e.Pause(r.ctx, s.Name, queue.Pause{}))
		soon := r.clock.Now().Add(time.Second)
		for i := 0; i < n; i += 500 {
			var list []queue.Job
			for k := range 500 {
				j := expiringJob(soon, s.Name, fmt.Sprint("j", i+k))
				j.Lane = []string{"", "a", "b", "c", "d"}[k%5]
				list = append(list, j)
			}
			r.acceptJobs(list...)
		}
		r.appendToLane(s.Name, "a", "last-a", 5, 1)
		r.appendToLane(s.Name, "", "last-k", 5, 1)
		r.clock.Advance(time.Minute)
		r.check(r.e.Resume(r.ctx, s.Name))
		m, before := mirrorOf(s), int64(0)
		var left []queue.Reservation
		for asked := 0; len(left) < 10; asked++ {
			if asked > 1000 {
				r.Fatalf("%d departed, %+v", len(left), r.info(s.Name))
			}
			res := r.reserveAs("client", s.Name, 20)
			r.departs(m, res.Jobs, false)
			r.deliver(res.Jobs...)
			left = append(left, res.Jobs...)
			if i := r.info(s.Name); i.TimedOut-before > 100 {
				r.Fatalf("%d ended in one call", i.TimedOut-before)
			} else {
				before = i.TimedOut
			}
			if len(left) == 0 {
				continue // the clock stands still: expiring takes no time
			}
			r.clock.Advance(max(res.Next, time.Millisecond))
		}
		r.drain(s.Name)
		r.tallies(s.Name, tally{appended: n + 10, timedOut: n, delivered: 10})
	}},
}
