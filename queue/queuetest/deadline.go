package queuetest

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

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
