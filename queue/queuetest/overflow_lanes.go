package queuetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/queue"
)

// laneJobs returns jobs in the lanes of their letters.
func laneJobs(queueName, list string) []queue.Job {
	var all []queue.Job
	for _, id := range strings.Fields(list) {
		all = append(all, jobOfLane(letters[id[0]], queueName, id))
	}
	return all
}

var overflowLaneRules = []rule{
	{"a job returns into its lane, with its priority, in turn with the others", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(10))
		s.full()
		list := laneJobs(s.q, "x1 x2 x3 y1 k1")
		list[2].Priority = 9
		s.asideJobs(list...)
		r.drain(s.q)
		s.takes(readmit.Returned, readmit.Returned, readmit.Returned, readmit.Returned, readmit.Returned)
		r.lanes(s.q, 3)
		for id, want := range map[string]int64{"x3": 1, "x1": 2, "x2": 3, "y1": 1, "k1": 1} {
			if j := r.job(s.q, id); j.Position != want || j.Lane != letters[id[0]] || j.State != queue.Waiting {
				r.Errorf("got %+v, want position %d", j, want)
			}
		}
		r.grant(s.q, 9, "k1", "x3", "y1", "x1", "x2")
	}},
	{"returning jobs ignore their lane's capacity and max_scheduled", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(10), everyLane(holding(1)), mostScheduled(1))
		due := r.clock.Now().Add(time.Hour)
		s.full()
		list := laneJobs(s.q, "x1 x2 x3 k1 k2")
		list[3].NotBefore, list[4].NotBefore = due.Time(), due.Time()
		s.asideJobs(list...)
		r.drain(s.q)
		s.takes(readmit.Returned, readmit.Returned, readmit.Returned, readmit.Returned, readmit.Returned)
		if i := r.info(s.q); i.Waiting != 3 || i.Scheduled != 2 {
			r.Errorf("%d wait, %d are scheduled", i.Waiting, i.Scheduled)
		}
		r.laneFull(laneX, s.q, "x4", time.Millisecond)
		r.scheduleFull(later(due, s.q, "k3"), due.Sub(r.clock.Now()))
		r.deliver(r.grant(s.q, 9, "x1", "x2", "x3")...)
		r.appendToLanes(s.q, "x4")
	}},
	{"full lanes and schedules refuse deferrable jobs too, with or without a backlog", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(3), everyLane(holding(1)), mostScheduled(1))
		due := r.clock.Now().Add(time.Hour)
		refused := func() {
			r.Helper()
			x := withOverflow(queue.Defer, s.q, "x2")
			x.Lane = laneX
			r.offered(queue.LaneFull, x)
			k := withOverflow(queue.Defer, s.q, "k2")
			k.NotBefore = due.Time()
			r.offered(queue.ScheduleFull, k)
			k.NotBefore = due.Add(queue.MaxAhead).Time()
			r.offered(queue.Invalid, k)
		}
		r.appendToLanes(s.q, "x1")
		r.schedule(later(due, s.q, "k1"))
		refused()
		r.appendToLanes(s.q, "y1")
		refused() // full
		s.asideJobs(laneJobs(s.q, "y2 y3 z1")[2])
		refused() // a backlog
		r.tallies(s.q, tally{waiting: 2, scheduled: 1, deferred: 1, appended: 3, setAside: 1, refused: 6})
	}},
	{"a schedule continues while its job is deferred", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4))
		t0 := r.clock.Now()
		s.full()
		a := s.asideJobs(later(t0.Add(time.Minute), s.q, "a"), later(t0.Add(time.Hour), s.q, "b"))
		r.checkDeferred(a[0], 5, t0.Add(time.Minute))
		r.checkDeferred(a[1], 6, t0.Add(time.Hour))
		r.drain(s.q)
		r.clock.Set(t0.Add(2 * time.Minute))
		s.takes(readmit.Returned, readmit.Returned)
		r.state(queue.Waiting, s.q, "a")
		r.checkJob(s.q, "b", seen{
			state: queue.Scheduled, eta: t0.Add(time.Hour), cost: 1, appended: r.clock.Now(), due: t0.Add(time.Hour),
		})
		r.deliver(r.grant(s.q, 9, "a")...)
		r.clock.Set(t0.Add(time.Hour - time.Microsecond))
		r.grant(s.q, 9)
		r.clock.Advance(time.Microsecond)
		if v := r.grant(s.q, 9, "b"); !v[0].NotBefore.Equal(t0.Add(time.Hour).Time()) {
			r.Errorf("got %+v", v)
		}
	}},
	{"a deferred job is behind all lanes", func(r *rig) {
		const T = 100 * time.Millisecond
		s := r.overflowOf("q", "10/s", withCapacity(4), except(laneX, laneRate("1/s")))
		t0 := r.clock.Now()
		r.appendToLanes(s.q, "x1 x2 y1 k1")
		a := s.asideJobs(laneJobs(s.q, "z1 k2")...)
		r.checkDeferred(a[0], 5, t0.Add(4*T))
		r.checkDeferred(a[1], 6, t0.Add(5*T))
	}},
	{"a job that would return too late is refused and not recorded", func(r *rig) {
		s := r.overflowOf("q", "1/s", withCapacity(2))
		t0 := r.clock.Now()
		s.full("a")
		r.tallies(s.q, tally{waiting: 2, deferred: 1, appended: 2, setAside: 1})
		j := expiringJob(t0.Add(3*time.Second-time.Microsecond), s.q, "b")
		if got := r.offered(queue.Lapsed, j); instantOf(got.ETA.At) != t0.Add(3*time.Second) || got.Ticket != "" ||
			got.State != queue.StateNone {
			r.Errorf("got %+v", got)
		}
		r.unknown(s.q, "b")
		r.tallies(s.q, tally{waiting: 2, deferred: 1, appended: 2, setAside: 1})
		s.asideJobs(expiringJob(t0.Add(3*time.Second), s.q, "b"))
		r.check(r.e.Pause(r.ctx, s.q, queue.Pause{}))
		s.asideJobs(expiringJob(t0.Add(time.Millisecond), s.q, "c"))
		r.tallies(s.q, tally{waiting: 2, deferred: 3, appended: 2, setAside: 3})
	}},
	{"a job of another lane is another job on the overflow too", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(1))
		s.full()
		s.asideJobs(laneJobs(s.q, "x1")...)
		other := jobOfLane(laneY, s.q, "x1")
		r.offered(queue.Conflict, other)
		r.drain(s.q)
		stray := s.jobs[0]
		stray.Job = other
		stray.Order++
		s.jobs = append(s.jobs, stray)
		s.takes(readmit.Returned, readmit.Clash)
	}},
	{"an invalid lane or schedule is not readmitted", func(r *rig) {
		for i, change := range []func(*queue.Job){
			func(j *queue.Job) { j.Lane = "\xff" },
			func(j *queue.Job) { j.Lane = strings.Repeat("x", queue.MaxLaneBytes+1) },
			func(j *queue.Job) { j.Priority = 10 },
			func(j *queue.Job) { j.NotBefore = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC) },
		} {
			s := r.overflowOf(fmt.Sprint("q", i), "unlimited", withCapacity(4))
			s.addUnknown("a")
			change(&s.jobs[0].Job)
			s.takes(readmit.Unreadable)
		}
	}},
	{"with lanes, returning jobs keep the pace, and lanes their rates", func(r *rig) {
		s := r.overflowOf("q", "40/s", withCapacity(60), everyLane(laneRate("7/s")))
		m := lanesOf(r.info(s.q).Spec)
		s.full()
		for range 60 {
			m.waiting[""]++
		}
		var list []queue.Job
		for i := range 30 {
			list = append(list, jobOfLane(fmt.Sprint("lane-", i%3), s.q, fmt.Sprintf("j%03d", i)))
		}
		s.asideJobs(list...)
		r.followLanes(m, s.q, 60)
		if n := s.fills(); n != 30 {
			r.Fatalf("%d came back", n)
		}
		for _, j := range list {
			m.waiting[j.Lane]++
		}
		r.followLanes(m, s.q, 30)
	}},
}
