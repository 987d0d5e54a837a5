package queuetest

import (
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/queue"
)

// deferredAgain offers, or appends, a job that is deferred already.
func (r *rig) deferredAgain(a, first queue.Appended) {
	r.Helper()
	if a.Outcome != queue.Duplicate || a.State != queue.Deferred || a.Ticket != first.Ticket ||
		!a.At.Equal(r.clock.Now().Time()) ||
		a.Position != 0 || !a.ETA.At.IsZero() || a.RetryAfter != 0 || a.Err != nil {
		r.Errorf("%s again: %+v; want a deferred duplicate with ticket %q, as of now", a.ID, a, first.Ticket)
	}
}

// changed returns variants of a job that conflict with it.
func changed(j queue.Job) map[string]queue.Job {
	payload, contentType, cost := j, j, j
	payload.Payload = append([]byte(" "), j.Payload...)
	contentType.ContentType = "text/plain"
	cost.Cost = j.Cost + 2
	return map[string]queue.Job{"payload": payload, "content type": contentType, "cost": cost}
}

var deferredOnceRules = []rule{
	{"a deferred job offered or appended again is a duplicate with its ticket and a current eta", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(2))
		first := s.full("a")[0]
		before := r.info(s.q)
		for range 3 {
			r.clock.Advance(time.Hour)
			r.deferredAgain(r.offer(job(s.q, "a"))[0], first)
			r.deferredAgain(r.append(job(s.q, "a"))[0], first)
			r.deferredAgain(r.offer(withOverflow(queue.Reject, s.q, "a"))[0], first)
		}
		written := job(s.q, "a")
		written.ContentType, written.Cost, written.Headers = queue.DefaultContentType, 1,
			map[string]string{"X-Trace": "2"}
		r.deferredAgain(r.offer(written)[0], first)
		r.drain(s.q) // the free room does not matter to a deferred job
		r.deferredAgain(r.offer(job(s.q, "a"))[0], first)
		if i := r.info(s.q); i.SetAside != before.SetAside || i.Deferred != 1 || i.Appended != before.Appended ||
			i.Refused != before.Refused {
			r.Errorf("counted %+v", i)
		}
	}},
	{"another job with the id of a deferred one is a conflict and changes nothing", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(2))
		j := job(s.q, "a")
		j.Cost = 3
		s.full()
		first := s.asideJobs(j)[0]
		for what, other := range changed(j) {
			for _, a := range append(r.offer(other), r.append(other)...) {
				if a.Outcome != queue.Conflict || a.Ticket != "" {
					r.Errorf("another %s: %+v", what, a)
				}
			}
		}
		r.deferredAgain(r.offer(j)[0], first)
		r.tallies(s.q, tally{waiting: 2, deferred: 1, appended: 2, setAside: 1})
	}},
	{"two queues may defer the same id", func(r *rig) {
		p, q := r.overflowOf("g.p", "unlimited", withCapacity(2)), r.overflowOf("g.q", "unlimited", withCapacity(2))
		p.full()
		q.full()
		other := job(q.q, "a")
		other.Payload = []byte("other")
		a := r.offer(job(p.q, "a"), other)
		r.outcomes(a, queue.SetAside, queue.SetAside)
		p.store(job(p.q, "a"), a[0])
		q.store(other, a[1])
		r.drain(p.q)
		r.drain(q.q)
		p.takes(readmit.Returned)
		r.state(queue.Deferred, q.q, "a")
		r.state(queue.Waiting, p.q, "a")
		q.takes(readmit.Returned)
		v := r.grant(p.q, 9, "a", "a")
		if v[0].Queue != p.q || v[1].Queue != q.q || string(v[1].Payload) != "other" {
			r.Errorf("granted %+v", v)
		}
	}},
	{"once back, the job is known in any state, and forgotten like any other", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(2), deferredFor(time.Minute, time.Minute))
		s.empties("a", "b")
		s.takes(readmit.Returned, readmit.NotYet)
		other := job(s.q, "a")
		other.Payload = []byte("other")
		known := func(state queue.State, position int64) {
			r.Helper()
			if a := r.offered(queue.Duplicate, job(s.q, "a")); a.State != state || a.Position != position ||
				a.Ticket != "" {
				r.Errorf("%+v, want it %v at %d", a, state, position)
			}
			r.offered(queue.Conflict, other)
		}
		known(queue.Waiting, 1)
		v := r.grant(s.q, 1, "a")
		known(queue.Leased, 0)
		r.fail(time.Second, v...)
		known(queue.Scheduled, 0)
		r.clock.Advance(time.Second)
		r.deliver(r.grant(s.q, 1, "a")...)
		known(queue.Delivered, 0)
		r.clock.Advance(time.Minute - time.Microsecond)
		known(queue.Delivered, 0)
		r.clock.Advance(time.Microsecond)
		again := s.asideJobs(other)[0] // behind b
		r.deferredAgain(r.offer(other)[0], again)
		r.offered(queue.Conflict, job(s.q, "a"))
	}},
	{"a record outlives any copy and the retention of ended jobs", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(2), deferredFor(10*time.Second, time.Minute))
		first := s.full("a", "b", "c")[0]
		r.cancels(queue.Cancelled, s.q, "b")
		r.clock.Advance(70*time.Second - time.Microsecond)
		r.deferredAgain(r.offer(job(s.q, "a"))[0], first)
		r.state(queue.Deferred, s.q, "a")
		r.state(queue.Cancelled, s.q, "b")
		r.clock.Advance(time.Microsecond)
		r.unknown(s.q, "a")
		r.unknown(s.q, "b")
		for _, id := range []string{"a", "b"} {
			_, err := r.e.Cancel(r.ctx, s.q, id)
			r.refuses(err, queue.ErrUnknownJob)
		}
		other := job(s.q, "a")
		other.Payload = []byte("other")
		again := r.offered(queue.SetAside, other)
		if again.Ticket == first.Ticket {
			r.Errorf("set aside anew under the old ticket %q", again.Ticket)
		}
		// A longer retention extends existing records too.
		r.clock.Advance(60 * time.Second)
		r.queue(s.q, "unlimited", withCapacity(2), defers, deferredFor(10*time.Second, time.Hour))
		r.clock.Advance(3549 * time.Second)
		r.deferredAgain(r.offer(other)[0], again)
		r.clock.Advance(time.Second)
		r.unknown(s.q, "a")
	}},
	{"a refused deferral is not remembered", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(1), func(s *queue.Spec) { s.Deferred.MaxJobs = 1 })
		s.full("a")
		r.offered(queue.OverflowFull, job(s.q, "b"))
		r.offered(queue.Full, withOverflow(queue.Reject, s.q, "c"))
		for _, id := range []string{"b", "c"} {
			r.unknown(s.q, id)
		}
	}},
}

var lapsedRules = []rule{
	{"an expired job is refused on every path, with or without room", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(2), func(s *queue.Spec) { s.Deferred.MaxJobs = 1 })
		now := r.clock.Now().Time()
		lapsed := func() {
			r.Helper()
			for _, at := range []time.Time{
				now, now.Add(500 * time.Nanosecond), now.Add(-time.Microsecond), now.AddDate(0, 0, -1),
				now.AddDate(-20, 0, 0),
			} {
				j := job(s.q, "x")
				j.ExpiresAt = at
				for _, a := range append(r.offer(j), r.append(j)...) {
					if a.Outcome != queue.Lapsed || a.State != queue.StateNone || a.Ticket != "" || a.RetryAfter != 0 ||
						a.Err != nil {
						r.Errorf("expires at %v: %+v", at, a)
					}
				}
			}
		}
		lapsed()
		s.full()
		lapsed()
		s.setAside("a")
		lapsed()
		r.drain(s.q)
		lapsed()
		r.unknown(s.q, "x")
		r.tallies(s.q, tally{deferred: 1, appended: 2, setAside: 1, delivered: 2})
	}},
	{"one microsecond before its deadline a job is accepted", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(1))
		for _, id := range []string{"a", "b"} {
			j := job(s.q, id)
			j.ExpiresAt = r.clock.Now().Time().Add(time.Microsecond)
			r.offered(map[string]queue.AppendOutcome{"a": queue.Accepted, "b": queue.SetAside}[id], j)
		}
	}},
	{"a known job stays known after it expired", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(3))
		until := r.clock.Now().Add(time.Second).Time()
		list := jobs(s.q, "delivered", "leased", "waiting", "deferred", "cancelled")
		for i := range list {
			list[i].ExpiresAt = until
		}
		r.outcomes(r.offer(list...), queue.Accepted, queue.Accepted, queue.Accepted, queue.SetAside, queue.SetAside)
		r.deliver(r.grant(s.q, 2, "delivered", "leased")[0])
		r.cancels(queue.Cancelled, s.q, "cancelled")
		r.clock.Advance(time.Minute)
		want := []queue.State{queue.Delivered, queue.Leased, queue.Expired, queue.Deferred, queue.Cancelled}
		for i, a := range append(r.offer(list...), r.append(list...)...) {
			if a.Outcome != queue.Duplicate || a.State != want[i%len(want)] {
				r.Errorf("%s: %v, %v", a.ID, a.Outcome, a.State)
			}
		}
		other := list[0]
		other.Payload = []byte("other")
		r.outcome(queue.Conflict, other)
	}},
	{"once forgotten, the job is refused as expired", func(r *rig) {
		q := r.queue("q", "unlimited", remember(time.Minute))
		j := job(q, "a")
		j.ExpiresAt = r.clock.Now().Add(time.Second).Time()
		r.acceptJobs(j)
		r.deliver(r.grant(q, 1, "a")...)
		r.clock.Advance(time.Minute)
		r.outcome(queue.Lapsed, j)
	}},
}
