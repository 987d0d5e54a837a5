package queuetest

import (
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// checkDeferred checks the position and the eta of a job that was just set aside.
func (r *rig) checkDeferred(a queue.Appended, position int64, eta leaky.Instant) {
	r.Helper()
	if a.Position != position || instantOf(a.ETA.At) != eta || a.ETA.Exact {
		r.Errorf("%s: at %d, expected at %+v; want %d, roughly %v", a.ID, a.Position, a.ETA, position, eta.Time())
	}
}

func costing(cost int64, queueName, id string) queue.Job {
	j := job(queueName, id)
	j.Cost = cost
	return j
}

var deferredETARules = []rule{
	{"a deferred job is behind all jobs in the queue and on the overflow, and behind their cost", func(r *rig) {
		const T = 100 * time.Millisecond
		s := r.overflowOf("q", "10/s", withCapacity(3))
		t0 := r.clock.Now()
		r.acceptJobs(costing(1, s.q, "a"), costing(2, s.q, "b"), costing(1, s.q, "c"))
		a := s.asideJobs(costing(3, s.q, "d"), costing(1, s.q, "e"), costing(1, s.q, "f"))
		r.checkDeferred(a[0], 4, t0.Add(4*T))
		r.checkDeferred(a[1], 5, t0.Add(7*T))
		r.checkDeferred(a[2], 6, t0.Add(8*T))

		// Later the eta counts the average cost of all deferred jobs.
		deferred := func(id string, position int64, cost int64, eta leaky.Instant) {
			r.Helper()
			r.checkJob(s.q, id, seen{state: queue.Deferred, position: position, eta: eta, cost: cost, appended: t0})
		}
		deferred("d", 4, 3, t0.Add(4*T))
		deferred("e", 5, 1, t0.Add(5*T)) // and a third of 5
		deferred("f", 6, 1, t0.Add(7*T)) // and two thirds

		r.deliver(r.grant(s.q, 1, "a")...)
		r.checkDeferred(s.asideJobs(costing(1, s.q, "g"))[0], 6, t0.Add(9*T))
		deferred("e", 4, 1, t0.Add(5*T)) // 3 in the queue, 6 deferred: a quarter
		r.cancels(queue.Cancelled, s.q, "e")
		deferred("d", 3, 3, t0.Add(4*T))
		deferred("f", 4, 1, t0.Add(5*T))
		deferred("g", 5, 1, t0.Add(7*T))
		r.checkDeferred(s.asideJobs(costing(2, s.q, "h"))[0], 6, t0.Add(9*T)) // e no longer counts

		r.drain(s.q) // b and c
		t1 := r.clock.Now()
		r.clock.Advance(time.Second)
		t1 = t1.Add(time.Second)
		s.takes(readmit.Returned, readmit.Passed)
		if res := r.readmit(s.request(0)); res.Room != 1 {
			r.Fatalf("room for %d", res.Room)
		}
		deferred("f", 2, 1, t1.Add(3*T)) // behind d: 3
		deferred("g", 3, 1, t1.Add(4*T)) // and a third of 4
		deferred("h", 4, 2, t1.Add(5*T)) // and two thirds
	}},
	{"while no job waits, only deferred jobs are ahead", func(r *rig) {
		const T = 100 * time.Millisecond
		s := r.overflowOf("q", "10/s", withCapacity(2))
		s.full("a")
		r.drain(s.q)
		r.clock.Advance(time.Minute)
		now := r.clock.Now()
		r.checkDeferred(s.setAside("b")[0], 2, now.Add(T))
		r.checkDeferred(s.setAside("c")[0], 3, now.Add(2*T))
		r.grant(s.q, 1)
		if j := r.job(s.q, "b"); instantOf(j.ETA.At) != now.Add(T) || j.Position != 2 {
			r.Errorf("got %+v", j)
		}
		v := r.acceptOne(s.q, "x")
		r.checkDeferred(s.setAside("d")[0], 4, now.Add(4*T)) // x has taken a slot
		r.release(v)
		r.checkDeferred(s.setAside("e")[0], 6, now.Add(5*T)) // x waits again, at now
	}},
	{"behind unrecorded jobs, only recorded jobs count", func(r *rig) {
		s := r.overflowOf("q", "10/s", withCapacity(2))
		s.addUnknown("s1", "s2", "s3")
		r.readmit(s.request(0))
		if a := r.offered(queue.SetAside, job(s.q, "a")); a.Position != 1 || instantOf(a.ETA.At) != r.clock.Now() ||
			a.ETA.Exact {
			r.Errorf("got %+v", a)
		}
	}},
	{"a cancelled deferral is visible before and after the job came back", func(r *rig) {
		s := r.overflowOf("q", "1/s", withCapacity(2))
		t0 := r.clock.Now()
		s.full()
		s.asideJobs(costing(5, s.q, "a"))
		r.clock.Advance(time.Minute)
		r.cancels(queue.Cancelled, s.q, "a")
		r.checkJob(s.q, "a", seen{state: queue.Cancelled, cost: 5, appended: t0})
		r.clock.Advance(time.Minute)
		s.takes(readmit.Passed)
		r.checkJob(s.q, "a", seen{state: queue.Cancelled, cost: 5, appended: t0, ended: r.clock.Now()})
	}},
	{"a returned job was appended when it came back", func(r *rig) {
		s := r.overflowOf("q", "10/s", withCapacity(2))
		s.full()
		s.asideJobs(costing(4, s.q, "a"))
		r.drain(s.q)
		r.clock.Advance(time.Minute)
		s.takes(readmit.Returned)
		now := r.clock.Now()
		r.checkJob(s.q, "a", seen{state: queue.Waiting, position: 1, eta: now, exact: true, cost: 4, appended: now})
		if i := r.info(s.q); !i.OldestWaiting.Equal(now.Time()) {
			r.Errorf("the oldest waits since %v", i.OldestWaiting)
		}
	}},
}

// acceptOne appends a job and reserves it.
func (r *rig) acceptOne(queueName, id string) queue.Reservation {
	r.Helper()
	r.accept(queueName, id)
	return r.grant(queueName, 1, id)[0]
}
