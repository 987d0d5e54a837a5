package queuetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// later returns a scheduled job.
func later(at leaky.Instant, queueName, id string) queue.Job {
	j := job(queueName, id)
	j.NotBefore = at.Time()
	return j
}

// schedule appends jobs that must be scheduled.
func (r *rig) schedule(list ...queue.Job) []queue.Appended {
	r.Helper()
	a := r.append(list...)
	for i := range a {
		if a[i].Outcome != queue.Accepted || a[i].State != queue.Scheduled || a[i].Position != 0 || a[i].ETA.Exact ||
			a[i].Err != nil {
			r.Fatalf("append %s/%s: %+v, want it scheduled", list[i].Queue, list[i].ID, a[i])
		}
	}
	return a
}

// mostScheduled sets how many jobs of a queue may be scheduled.
func mostScheduled(n int64) func(*queue.Spec) { return func(s *queue.Spec) { s.MaxScheduled = n } }

// scheduleFull appends a job that must be refused because too many are scheduled.
func (r *rig) scheduleFull(j queue.Job, want time.Duration) {
	r.Helper()
	if a := r.outcome(queue.ScheduleFull, j); a.RetryAfter != want || a.State != queue.StateNone || a.Position != 0 ||
		a.Err != nil {
		r.Errorf("%s: refused with %+v, want to come back after %v", j.ID, a, want)
	}
}

var scheduleRules = []rule{
	{"a job departs at not_before, not earlier", func(r *rig) {
		for i, rate := range []string{"unlimited", "1000/s"} {
			q := r.queue(fmt.Sprint("g.q", i), rate)
			t0 := r.clock.Now()
			due := t0.Add(5 * time.Second)
			a := r.schedule(later(due, q, "a"))[0]
			if instantOf(a.ETA.At) != due {
				r.Errorf("expected at %v", a.ETA.At)
			}
			r.checkJob(q, "a", seen{state: queue.Scheduled, eta: due, cost: 1, appended: t0, due: due})
			nextIn := func(want time.Duration) {
				r.Helper()
				res := r.reserveAs("client", q, 9)
				if len(res.Jobs) != 0 || res.Next != want {
					r.Errorf("granted %v, next in %v; want none, %v", ids(res.Jobs), res.Next, want)
				}
			}
			nextIn(2 * time.Second)
			r.clock.Set(due.Add(-time.Second))
			nextIn(time.Second)
			r.clock.Set(due - 1)
			nextIn(time.Millisecond)
			r.clock.Set(due)
			v := r.grant(q, 9, "a")[0]
			if v.In != 0 || !v.NotBefore.Equal(due.Time()) || v.Attempt != 1 {
				r.Errorf("got %+v", v)
			}
			r.deliver(v)
			r.tallies(q, tally{appended: 1, delivered: 1})
		}
	}},
	{"a not_before in the past means at once", func(r *rig) {
		q := r.queue("q", "unlimited")
		now := r.clock.Now()
		a := r.acceptJobs(later(now, q, "now"), later(now.Add(-time.Hour), q, "past"), job(q, "none"))
		for i := range a {
			if a[i].Position != int64(i+1) {
				r.Errorf("got %+v", a[i])
			}
		}
		r.grant(q, 9, "now", "past", "none")
	}},
	{"a scheduled job takes its turn by its arrival, not by its due time", func(r *rig) {
		q := r.queue("q", "1/s")
		t0 := r.clock.Now()
		r.schedule(later(t0.Add(500*time.Millisecond), q, "early"))
		r.accept(q, "a", "b", "c")
		r.schedule(later(t0.Add(500*time.Millisecond), q, "late"))
		if got, want := r.departureTimes(q, t0, 5), "a@0s early@1s b@2s c@3s late@4s"; got != want {
			r.Errorf("got %s, want %s", got, want)
		}
	}},
	{"many jobs due at once leave at the rate, in order of arrival", func(r *rig) {
		s := spec("q", "14/s", func(s *queue.Spec) { s.Burst = 3 })
		r.put(s)
		due := r.clock.Now().Add(time.Minute)
		var list []queue.Job
		want := numbered("j", 60)
		for i, id := range want {
			list = append(list, later(due.Add(-time.Duration(i)*time.Second/2), s.Name, id)) // the last is due first
		}
		r.schedule(list...)
		r.check(r.e.Pause(r.ctx, s.Name, queue.Pause{}))
		r.clock.Set(due)
		r.grant(s.Name, 9)
		r.state(queue.Scheduled, s.Name, "j00001")
		r.check(r.e.Resume(r.ctx, s.Name))
		m := mirrorOf(s)
		var order []queue.Reservation
		for len(order) < len(want) {
			res := r.reserveAs("client", s.Name, 9)
			r.departs(m, res.Jobs, len(order)+len(res.Jobs) < len(want))
			r.deliver(res.Jobs...)
			order = append(order, res.Jobs...)
			r.clock.Advance(max(res.Next, time.Millisecond))
		}
		r.sameIDs(order, want...)
	}},
	{"a hundred jobs become due a visit, all of them eventually", func(r *rig) {
		q := r.queue("q", "unlimited")
		due := r.clock.Now().Add(time.Second)
		var list []queue.Job
		want := numbered("j", 350)
		for i, id := range want {
			list = append(list, later(due+leaky.Instant(i), q, id))
		}
		r.schedule(list...)
		r.clock.Advance(2 * time.Second)
		if got := r.reserve(q, queue.MaxReserve); len(got) != 100 {
			r.Errorf("%d departed in one visit", len(got))
		} else {
			r.deliver(got...)
		}
		r.sameIDs(r.drain(q), want[100:]...)
	}},
	{"the eta is the later of not_before and the pace", func(r *rig) {
		q := r.queue("q", "1/s")
		t0 := r.clock.Now()
		r.accept(q, numbered("j", 10)...)
		for id, want := range map[string]struct{ due, eta time.Duration }{
			"soon": {3 * time.Second, 10 * time.Second}, "far": {20 * time.Second, 20 * time.Second},
		} {
			if a := r.schedule(later(t0.Add(want.due), q, id))[0]; instantOf(a.ETA.At) != t0.Add(want.eta) {
				r.Errorf("%s is expected at %v, want %v", id, a.ETA.At, t0.Add(want.eta).Time())
			}
			r.checkJob(q, id, seen{
				state: queue.Scheduled, eta: t0.Add(want.eta), cost: 1, appended: t0, due: t0.Add(want.due),
			})
		}
	}},
	{"a due job is in its lane with its priority", func(r *rig) {
		q := r.queue("q", "unlimited", everyLane(queue.LaneRule{Capacity: 3}))
		due := r.clock.Now().Add(time.Minute)
		j := later(due, q, "x1")
		j.Lane, j.Priority = laneX, 7
		r.schedule(j)
		r.lanes(q, 0)
		if i := r.job(q, "x1"); i.Lane != laneX || i.Priority != 7 {
			r.Errorf("got %+v", i)
		}
		r.appendToLanes(q, "x2 x3")
		r.laneFull(laneX, q, "x4", time.Millisecond)
		r.check(r.e.Pause(r.ctx, q, queue.Pause{}))
		r.clock.Set(due)
		r.check(r.e.Resume(r.ctx, q))
		r.appendToLanes(q, "y1")
		r.grant(q, 9, "x1", "y1", "x2", "x3")
	}},
	{"a job cancelled while scheduled frees its place and never departs", func(r *rig) {
		q := r.queue("q", "unlimited", withCapacity(2), mostScheduled(1))
		due := r.clock.Now().Add(time.Minute)
		r.schedule(later(due, q, "a"))
		r.accept(q, "b")
		r.outcome(queue.Full, job(q, "c"))
		r.cancels(queue.Cancelled, q, "a")
		r.schedule(later(due, q, "c"))
		r.duplicate(later(due, q, "a"), queue.Cancelled, 0)
		r.clock.Set(due)
		r.grant(q, 9, "b", "c")
		r.tallies(q, tally{leased: 2, appended: 3, cancelled: 1, refused: 1})
	}},
	{"a scheduled job can expire", func(r *rig) {
		q := r.queue("q", "unlimited")
		t0 := r.clock.Now()
		j := later(t0.Add(time.Second), q, "a")
		j.ExpiresAt = t0.Add(2 * time.Second).Time()
		r.schedule(j)
		r.clock.Advance(3 * time.Second)
		r.state(queue.Scheduled, q, "a")
		r.grant(q, 9)
		r.state(queue.Expired, q, "a")
		r.tallies(q, tally{appended: 1, timedOut: 1})
	}},
	{"max_scheduled limits scheduled jobs, but not those that back off", func(r *rig) {
		const ms = time.Millisecond
		q := r.queue("q", "unlimited", mostScheduled(2))
		t0 := r.clock.Now()
		r.accept(q, "f")
		v := r.grant(q, 9, "f")
		r.schedule(later(t0.Add(20*time.Second), q, "a"), later(t0.Add(10*time.Second), q, "b"))
		c := later(t0.Add(time.Second), q, "c")
		r.scheduleFull(c, 10*time.Second)
		r.duplicate(later(t0.Add(time.Hour), q, "a"), queue.Scheduled, 0)
		r.accept(q, "now")
		r.fail(3*time.Second, v...)
		r.scheduleFull(c, 3*time.Second)
		r.clock.Advance(4 * time.Second)
		r.scheduleFull(later(t0.Add(time.Minute), q, "c"), ms) // f is due, but nobody has looked
		r.grant(q, 9, "f", "now")
		r.scheduleFull(later(t0.Add(time.Minute), q, "c"), 6*time.Second)
		r.acceptJobs(c) // it may go at once
		r.queue(q, "unlimited", mostScheduled(3))
		r.schedule(later(t0.Add(time.Minute), q, "d"))
		r.scheduleFull(later(t0.Add(time.Minute), q, "e"), 6*time.Second)
		r.queue(q, "unlimited", mostScheduled(1))
		r.scheduleFull(later(t0.Add(time.Minute), q, "e"), 6*time.Second)
		r.queue(q, "unlimited")
		r.schedule(later(t0.Add(time.Minute), q, "e"))
		if i := r.info(q); i.Scheduled != 4 || i.Refused != 6 {
			r.Errorf("%d scheduled, %d refused", i.Scheduled, i.Refused)
		}
	}},
	{"of full lanes, schedules and queues, the first is reported", func(r *rig) {
		q := r.queue("q", "unlimited", withCapacity(2), mostScheduled(1), everyLane(holding(1)))
		due := r.clock.Now().Add(time.Minute)
		j := later(due, q, "x1")
		j.Lane = laneX
		r.schedule(j)
		r.accept(q, "k1")
		j.ID = "x2"
		r.outcome(queue.LaneFull, j)
		r.scheduleFull(later(due, q, "k2"), time.Minute)
		r.outcome(queue.Full, job(q, "k2"))
	}},
	{"a not_before over a year ahead is invalid, and so is a deadline before it", func(r *rig) {
		q := r.queue("q", "unlimited")
		now := r.clock.Now()
		r.schedule(later(now.Add(queue.MaxAhead), q, "a"))
		for field, j := range map[string]queue.Job{
			"not_before": later(now.Add(queue.MaxAhead+time.Microsecond), q, "b"),
			"expires_at": func() queue.Job {
				j := later(now.Add(time.Hour), q, "b")
				j.ExpiresAt = j.NotBefore
				return j
			}(),
		} {
			var fe *invalid.Error
			if a := r.outcome(queue.Invalid, j); !errors.As(a.Err, &fe) || fe.Field != field {
				r.Errorf("%v, want the field %s", a.Err, field)
			}
		}
		for _, year := range []int{1970, 2999} {
			j := job(q, "b")
			j.NotBefore = time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
			if a := r.outcome(queue.Invalid, j); kind(a.Err) != "field not_before" {
				r.Errorf("%d: %v", year, a.Err)
			}
		}
		r.clock.Set(now.Add(queue.MaxAhead))
		r.grant(q, 9, "a")
	}},
	{"not_before is kept to the microsecond, and does not distinguish jobs", func(r *rig) {
		q := r.queue("q", "unlimited")
		at := r.clock.Now().Time().Add(time.Hour + 123_456_789*time.Nanosecond)
		j := job(q, "a")
		j.NotBefore = at.In(time.FixedZone("east", 3*3600))
		r.schedule(j)
		j.NotBefore = at.Add(time.Hour)
		r.duplicate(j, queue.Scheduled, 0)
		r.duplicate(job(q, "a"), queue.Scheduled, 0)
		r.clock.Advance(2 * time.Hour)
		v := r.drain(q)
		if want := at.Truncate(time.Microsecond); len(v) != 1 || !v[0].NotBefore.Equal(want) {
			r.Errorf("got %+v, want %v", v, want)
		}
	}},
	{"slots before not_before are not lost", func(r *rig) {
		q := r.queue("q", "10/s")
		r.schedule(later(r.clock.Now().Add(time.Minute), q, "a"))
		r.clock.Advance(time.Minute + 250*time.Millisecond)
		res := r.reserveAs("client", q, 9)
		r.sameIDs(res.Jobs, "a")
		if res.Lost[q] != 2 {
			r.Errorf("lost %v, want 2 slots of q", res.Lost)
		}
	}},
	{"a job due before the watcher's next look wakes the watcher", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.awaitWake(q, "w", func(i int) {
			r.deliver(r.watching("w", q)...)
			r.schedule(later(r.clock.Now().Add(500*time.Millisecond), q, fmt.Sprint("j", i)))
		})
	}},
	{"a queue is deleted with its scheduled jobs", func(r *rig) {
		q := r.queue("q", "unlimited")
		due := r.clock.Now().Add(time.Second)
		r.schedule(later(due, q, "a"))
		r.refuses(r.e.Delete(r.ctx, q, queue.AnyRevision, false), queue.ErrNotEmpty)
		r.delete(q)
		r.queue(q, "unlimited")
		r.clock.Set(due)
		r.grant(q, 9)
		r.accept(q, "a")
	}},
}
