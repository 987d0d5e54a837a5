package queuetest

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

// delay is one way to hold a job up. It appends the job e, which expires in a second, and returns its queue.
type delay struct {
	what string
	hold func(r *rig, e queue.Job)
}

// fails lets jobs of a queue fail, to come back in an hour.
func (r *rig) fails(queueName string, id string) {
	r.Helper()
	r.fail(time.Hour, r.grant(queueName, 9, id)...)
}

var delays = []delay{
	{"others before it", func(r *rig, e queue.Job) {
		r.queue(e.Queue, "1/h")
		r.late(e.Queue, job(e.Queue, "a"), e, job(e.Queue, "c"))
		r.grant(e.Queue, 9, "a")
	}},
	{"a quota that is used up", func(r *rig, e queue.Job) {
		r.queue(e.Queue, "unlimited", limited("quota 1/d"))
		r.late(e.Queue, job(e.Queue, "a"), e)
		r.grant(e.Queue, 9, "a")
	}},
	{"max_in_flight", func(r *rig, e queue.Job) {
		r.queue(e.Queue, "unlimited", maxInFlight(1))
		r.acceptJobs(job(e.Queue, "a"), e)
		r.grant(e.Queue, 9, "a")
	}},
	{"a lane that waits for its rate", func(r *rig, e queue.Job) {
		r.queue(e.Queue, "unlimited", everyLane(laneRate("1/h")))
		e.Lane = laneX
		r.late(e.Queue, jobOfLane(laneX, e.Queue, "a"), e, jobOfLane(laneX, e.Queue, "c"))
		r.grant(e.Queue, 9, "a")
	}},
	{"a busy lane", func(r *rig, e queue.Job) {
		r.queue(e.Queue, "unlimited", everyLane(queue.LaneRule{MaxInFlight: 1}))
		e.Lane = laneX
		r.acceptJobs(jobOfLane(laneX, e.Queue, "a"), e)
		r.grant(e.Queue, 9, "a")
	}},
	{"a pause", func(r *rig, e queue.Job) {
		r.queue(e.Queue, "unlimited")
		r.check(r.e.Pause(r.ctx, e.Queue, queue.Pause{}))
		r.acceptJobs(e)
	}},
	{"a pause with an end", func(r *rig, e queue.Job) {
		r.queue(e.Queue, "unlimited")
		r.acceptJobs(e)
		r.check(r.e.Pause(r.ctx, e.Queue, queue.Pause{Until: r.clock.Now().Add(time.Hour).Time()}))
	}},
	{"a pause, while it is scheduled", func(r *rig, e queue.Job) {
		r.queue(e.Queue, "unlimited")
		r.check(r.e.Pause(r.ctx, e.Queue, queue.Pause{}))
		e.NotBefore = r.clock.Now().Add(500 * time.Millisecond).Time()
		r.schedule(e)
	}},
	{"a failure that is retried later", func(r *rig, e queue.Job) {
		r.queue(e.Queue, "unlimited")
		r.acceptJobs(e)
		r.fails(e.Queue, e.ID)
	}},
	{"a failure in an ordered queue", func(r *rig, e queue.Job) {
		r.queue(e.Queue, "unlimited", ordered, maxInFlight(1))
		e.Lane = laneX
		r.acceptJobs(e)
		r.fails(e.Queue, e.ID)
		r.acceptJobs(jobOfLane(laneY, e.Queue, "a"))
		r.grant(e.Queue, 9, "a")
		r.acceptJobs(jobOfLane(laneX, e.Queue, "c"))
	}},
	{"its parent's pace", func(r *rig, e queue.Job) {
		r.queue(e.Queue, "unlimited")
		r.queue(names.Parent(e.Queue), "1/h")
		r.check(r.e.Pause(r.ctx, e.Queue, queue.Pause{}))
		r.acceptJobs(job(e.Queue, "a"), e)
		r.check(r.e.Resume(r.ctx, e.Queue))
		r.grant(e.Queue, 9, "a")
	}},
	{"its parent's pause", func(r *rig, e queue.Job) {
		r.queue(e.Queue, "unlimited")
		r.queue(names.Parent(e.Queue), "unlimited")
		r.check(r.e.Pause(r.ctx, names.Parent(e.Queue), queue.Pause{}))
		r.acceptJobs(e)
	}},
	{"no client that asks for it", func(r *rig, e queue.Job) {
		e.Queue = r.pullQueueBeside(e.Queue)
		r.acceptJobs(e)
	}},
}

// holder returns the queue that holds the only job that expires.
func (r *rig) holder() queue.Info {
	r.Helper()
	for _, i := range r.all() {
		if _, err := r.e.Job(r.ctx, i.Spec.Name, "e"); err == nil {
			return i
		}
	}
	r.Fatal("no queue holds it")
	return queue.Info{}
}

// delayed returns one rule for each way to hold a job up.
func delayed(what string, check func(r *rig, q queue.Info)) (rules []rule) {
	for _, d := range delays {
		rules = append(rules, rule{what + " " + d.what, func(r *rig) {
			t0 := r.clock.Now()
			d.hold(r, expiringJob(t0.Add(time.Second), "g.q", "e"))
			r.clock.Set(t0.Add(time.Second - time.Microsecond))
			check(r, r.holder())
			i, j := r.holder(), r.job(r.holder().Spec.Name, "e")
			if j.State != queue.Expired || !j.EndedAt.Equal(t0.Add(time.Second).Time()) || i.TimedOut != 1 {
				r.Errorf("%+v, %d timed out", j, i.TimedOut)
			}
		}})
	}
	return rules
}

var onTimeRules = append(append([]rule{
	{"a full lane has a place again", func(r *rig) {
		q := r.queue("q", "1/h", everyLane(holding(2)))
		e := expiringJob(r.clock.Now().Add(time.Second), q, "e")
		e.Lane = laneX
		r.late(q, jobOfLane(laneX, q, "x1"), e)
		r.laneFull(laneX, q, "x2", time.Hour)
		r.clock.Advance(time.Second)
		r.acceptJobs(jobOfLane(laneX, q, "x2"))
		r.laneFull(laneX, q, "x3", time.Hour)
		r.tallies(q, tally{waiting: 2, appended: 3, timedOut: 1, refused: 2})
	}},
	{"the schedule has a place again", func(r *rig) {
		q := r.queue("q", "unlimited", mostScheduled(1))
		t0 := r.clock.Now()
		e := expiringJob(t0.Add(2*time.Second), q, "e")
		e.NotBefore = t0.Add(time.Second).Time()
		r.schedule(e)
		r.check(r.e.Pause(r.ctx, q, queue.Pause{}))
		r.scheduleFull(later(t0.Add(time.Hour), q, "a"), time.Second)
		r.clock.Advance(2 * time.Second)
		r.schedule(later(t0.Add(time.Hour), q, "a"))
	}},
	{"each job of a call finds the places freed before it", func(r *rig) {
		q := r.queue("g.q", "1/h", withCapacity(3))
		other := r.queue("g.other", "1/h", withCapacity(1))
		soon := r.clock.Now().Add(time.Second)
		r.late(q, job(q, "a"), expiringJob(soon, q, "b"), expiringJob(soon, q, "c"))
		r.late(other, expiringJob(soon, other, "d"))
		r.clock.Advance(time.Second)
		r.outcomes(r.append(
			job(q, "a"), job(q, "e"), job(other, "f"), job(q, "g"), job(q, "h"), job(other, "i"),
			expiringJob(soon, q, "b"),
		),
			queue.Duplicate, queue.Accepted, queue.Accepted, queue.Accepted, queue.Full, queue.Full, queue.Duplicate)
		r.state(queue.Expired, q, "b")
		if j := r.job(q, "g"); j.Position != 3 {
			r.Errorf("%+v", j)
		}
	}},
	{"an append to any queue ends expired jobs of all queues", func(r *rig) {
		q := r.queue("q", "1/h")
		other := r.pullQueueBeside(q)
		r.late(q, expiringJob(r.clock.Now().Add(time.Second), q, "e"))
		r.clock.Advance(time.Second)
		r.accept(other, "a")
		r.state(queue.Expired, q, "e")
	}},
	{"a leased job is delivered, or ends after it came back", func(r *rig) {
		q := r.queue("q", "unlimited", leased(10*time.Second, 8))
		soon := r.clock.Now().Add(5 * time.Second)
		r.acceptJobs(
			expiringJob(soon, q, "delivered"), expiringJob(soon, q, "released"), expiringJob(soon, q, "failed"),
			expiringJob(soon, q, "ran"),
		)
		v := r.grant(q, 9, "delivered", "released", "failed", "ran")
		r.clock.Advance(6 * time.Second)
		r.grant(q, 9)
		for _, j := range v {
			r.state(queue.Leased, q, j.ID)
		}
		r.deliver(v[0])
		r.release(v[1])
		r.fail(time.Hour, v[2])
		r.state(queue.Waiting, q, "released")
		r.state(queue.Scheduled, q, "failed")
		r.grant(q, 9)
		r.state(queue.Expired, q, "released")
		r.state(queue.Expired, q, "failed")
		r.clock.Advance(4 * time.Second)
		if res := r.reserveAs("client", q, 9); len(res.Jobs) != 0 || len(res.Expired) != 1 {
			r.Errorf("granted %v, ran out %v", ids(res.Jobs), res.Expired)
		}
		r.state(queue.Expired, q, "ran")
		r.tallies(q, tally{appended: 4, timedOut: 3, delivered: 1, retried: 1, ran: 1})
	}},
	{"a lane that an expired job held up continues, and an empty lane takes no turn", func(r *rig) {
		q := r.queue("q", "unlimited", ordered)
		soon := r.clock.Now().Add(time.Second)
		x, y := expiringJob(soon, q, "x1"), expiringJob(soon, q, "y1")
		x.Lane, y.Lane = laneX, laneY
		r.acceptJobs(x, jobOfLane(laneX, q, "x2"), y)
		v := r.grant(q, 9, "x1", "y1")
		r.fail(time.Hour, v...)
		r.grant(q, 9)
		r.clock.Advance(time.Second)
		r.lanes(q, 1)
		r.deliver(r.grant(q, 9, "x2")...)
		r.lanes(q, 0)
		r.tallies(q, tally{appended: 3, timedOut: 2, delivered: 1, retried: 2})
	}},
	{"neither the lane nor the queue pays for an expired job", func(r *rig) {
		q := r.queue("q", "10/s", everyLane(laneRate("1/m")))
		t0 := r.clock.Now()
		e := expiringJob(t0.Add(time.Second), q, "x1")
		e.Lane, e.Cost = laneX, 50
		r.late(q, e, jobOfLane(laneX, q, "x2"), jobOfLane(laneX, q, "x3"))
		r.check(r.e.Pause(r.ctx, q, queue.Pause{}))
		r.clock.Advance(time.Second)
		r.grant(q, 9)
		r.check(r.e.Resume(r.ctx, q))
		r.deliver(r.grant(q, 9, "x2")...)
		r.clock.Advance(time.Minute)
		r.grant(q, 9, "x3")
	}},
	{"the others of a group continue, and its waiting jobs are counted", func(r *rig) {
		r.group("p 1/s", "a unlimited", "b unlimited")
		soon := r.clock.Now().Add(500 * time.Millisecond)
		r.check(r.e.Pause(r.ctx, "ses", queue.Pause{}))
		r.appendGroup("a1 a2 b1 b2 p1")
		r.acceptJobs(expiringJob(soon, "ses.a", "e1"), expiringJob(soon, "ses.b", "e2"), expiringJob(soon, "ses", "e3"))
		r.check(r.e.Pause(r.ctx, "ses.b", queue.Pause{}))
		r.cancels(queue.Cancelled, "ses.b", "b1")
		r.cancels(queue.Cancelled, "ses.b", "b2")
		r.check(r.e.Resume(r.ctx, "ses"))
		r.deliver(r.grant("ses", 9, "p1")...)
		r.clock.Advance(500 * time.Millisecond)
		r.grant("ses", 9)
		if g := r.info("ses").Group; g.Waiting != 2 || g.Members != 1 {
			r.Errorf("%+v", g)
		}
		r.clock.Advance(500 * time.Millisecond)
		r.deliver(r.grant("ses", 9, "a1")...)
		r.clock.Advance(time.Second)
		r.deliver(r.grant("ses", 9, "a2")...)
	}},
	{"ten thousand jobs free their places, a hundred a call, the earliest first", func(r *rig) {
		const n = 10_000
		q := r.queue("q", "1/h", withCapacity(n+1))
		t0 := r.clock.Now()
		r.check(r.e.Pause(r.ctx, q, queue.Pause{}))
		list := []queue.Job{job(q, "first")}
		for i, id := range numbered("j", n) {
			list = append(list, expiringJob(t0.Add(time.Second-time.Duration(i)*time.Microsecond), q, id))
		}
		for k := 0; k < len(list); k += 500 {
			r.acceptJobs(list[k:min(k+500, len(list))]...)
		}
		r.outcome(queue.Full, job(q, "more"))
		r.clock.Advance(time.Second)
		for done := int64(100); done <= n; done += 100 {
			res := r.reserveAs("client", q, 9)
			if i := r.info(q); i.TimedOut != done || i.Size() != n+1-done ||
				done < n != (res.Next == time.Millisecond) {
				r.Fatalf("%d timed out, %d are left, next in %v", i.TimedOut, i.Size(), res.Next)
			}
			if done == 100 {
				r.state(queue.Expired, q, fmt.Sprintf("j%05d", n-99))
				r.state(queue.Waiting, q, fmt.Sprintf("j%05d", n-100))
			}
		}
		for k := 0; k < n; k += 500 {
			r.accept(q, numbered(fmt.Sprint("k", k, "-"), 500)...)
		}
		r.outcome(queue.Full, job(q, "more"))
		r.check(r.e.Resume(r.ctx, q))
		r.grant(q, 9, "first") // at once: no slot was used
	}},
	{"of several queues, the one whose job expired first goes first", func(r *rig) {
		a, b, c := r.queue("g.a", "1/h"), r.queue("g.b", "1/h"), r.queue("g.c", "1/h")
		t0 := r.clock.Now()
		for i, q := range []string{a, b, c} {
			r.check(r.e.Pause(r.ctx, q, queue.Pause{}))
			for k, id := range numbered("j", 60) {
				r.acceptJobs(expiringJob(t0.Add(time.Second+time.Duration(k*100-i)*time.Microsecond), q, id))
			}
		}
		r.clock.Advance(time.Minute)
		timedOut := func(want ...int64) {
			r.Helper()
			r.grant(a, 9)
			if got := []int64{
				r.info(a).TimedOut, r.info(b).TimedOut, r.info(c).TimedOut,
			}; fmt.Sprint(got) != fmt.Sprint(want) {
				r.Errorf("%v timed out, want %v", got, want)
			}
		}
		timedOut(0, 40, 60)
		timedOut(60, 60, 60)
	}},
	{"a returning job finds the free place and is announced", func(r *rig) {
		s := r.overflowOf("q", "1/h", withCapacity(1), lowWater(0.9))
		ear := r.listenRoom()
		defer ear.cancel()
		for i := range 100 {
			id := fmt.Sprint("e", i)
			soon := r.clock.Now().Add(time.Second)
			r.check(r.e.Pause(r.ctx, s.q, queue.Pause{}))
			r.acceptJobs(expiringJob(soon, s.q, id))
			s.setAside(fmt.Sprint("b", i))
			s.takes(readmit.NotYet)
			r.clock.Set(soon)
			s.takes(readmit.Returned)
			r.state(queue.Expired, s.q, id)
			r.cancels(queue.Cancelled, s.q, fmt.Sprint("b", i))

			r.acceptJobs(expiringJob(soon.Add(time.Second), s.q, id+"again"))
			s.setAside(fmt.Sprint("c", i))
			s.takes(readmit.NotYet)
			r.clock.Advance(time.Second)
			r.grant(s.q, 9)
			heard := ear.until(s.q)
			s.takes(readmit.Returned)
			r.cancels(queue.Cancelled, s.q, fmt.Sprint("c", i))
			if heard != nil {
				return
			}
		}
		r.Fatal("the room was never announced")
	}},
	{"a job that came back from the overflow no longer counts as deferred", func(r *rig) {
		s := r.overflowOf("q", "1/h", withCapacity(2), lowWater(0.5))
		s.accept(s.q, "a", "b")
		e := expiringJob(r.clock.Now().Add(3*time.Hour), s.q, "e")
		s.asideJobs(e)
		s.cancels(queue.Cancelled, s.q, "a")
		s.takes(readmit.Returned)
		s.setAside("c")
		s.takes(readmit.NotYet)
		r.clock.Advance(3 * time.Hour)
		s.takes(readmit.Returned)
		r.state(queue.Expired, s.q, "e")
	}},
	{"a replay finds the free place, and a job that expired while dead ends again", func(r *rig) {
		q := r.queue("q", "unlimited", withCapacity(2))
		soon := r.clock.Now().Add(time.Second)
		r.buried("no", expiringJob(soon, q, "d1"), job(q, "d2"))
		r.check(r.e.Pause(r.ctx, q, queue.Pause{}))
		r.acceptJobs(expiringJob(soon, q, "e"), job(q, "a"))
		r.replays(q, []string{"d1"}, queue.NoRoom)
		r.clock.Advance(time.Second)
		r.replays(q, []string{"d1", "d2"}, queue.Replayed, queue.NoRoom)
		r.state(queue.Waiting, q, "d1")
		r.replays(q, []string{"d2"}, queue.Replayed)
		r.state(queue.Expired, q, "d1")
	}},
}, delayed("a Reserve ends a job on time that is held up by", func(r *rig, q queue.Info) {
	state := r.job(q.Spec.Name, "e").State
	r.grant(q.Spec.Name, 9)
	r.state(state, q.Spec.Name, "e")
	r.clock.Advance(time.Microsecond)
	for _, v := range r.reserve(q.Spec.Name, 9) {
		if v.ID != "c" || !q.Spec.Ordered {
			r.Errorf("granted %s", v.ID)
		}
	}
	if i := r.info(q.Spec.Name); i.Size() != q.Size()-1 {
		r.Errorf("it holds %d jobs, and held %d", i.Size(), q.Size())
	}
})...), delayed("the next job gets the place in a full queue of a job held up by", func(r *rig, q queue.Info) {
	q.Spec.Capacity = q.Size()
	r.put(q.Spec)
	r.outcome(queue.Full, job(q.Spec.Name, "next"))
	r.clock.Advance(time.Microsecond)
	r.outcome(queue.Accepted, job(q.Spec.Name, "next"))
	r.outcome(queue.Full, job(q.Spec.Name, "one-more"))
})...)
