package queuetest

import (
	"slices"
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

func ticketed(a queue.Appended, queueName string) queue.Ticketed {
	return queue.Ticketed{Queue: queueName, ID: a.ID, Ticket: a.Ticket}
}

// withdraws withdraws deferrals and checks the promises.
func (r *rig) withdraws(list []queue.Ticketed, want ...time.Duration) {
	r.Helper()
	got, err := r.e.Withdraw(r.ctx, list)
	if err != nil || !slices.Equal(got, want) {
		r.Fatalf("withdraw %+v: %v, %v; want %v", list, got, err, want)
	}
}

// withdrawsOne withdraws one deferral and ignores the promise.
func (r *rig) withdrawsOne(t queue.Ticketed) {
	r.Helper()
	if got, err := r.e.Withdraw(r.ctx, []queue.Ticketed{t}); err != nil || len(got) != 1 || got[0] <= 0 {
		r.Fatalf("withdraw %+v: %v, %v", t, got, err)
	}
}

var withdrawRules = []rule{
	{"a job that could not be stored is as if it had never been offered", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(2))
		a := s.full("a", "b")
		r.withdrawsOne(ticketed(a[0], s.q))
		r.unknown(s.q, "a")
		r.state(queue.Deferred, s.q, "b")
		r.tallies(s.q, tally{waiting: 2, deferred: 1, appended: 2, setAside: 1})
		other := job(s.q, "a")
		other.Payload = []byte("other")
		again := r.offered(queue.SetAside, other)
		if again.Position != 4 || again.Ticket == a[0].Ticket {
			r.Errorf("%+v, want it at 4 with a ticket other than %q", again, a[0].Ticket)
		}
	}},
	{"withdrawing the last deferral ends the backlog", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4))
		a := s.empties("a")[0]
		r.offered(queue.SetAside, job(s.q, "b"))
		b := r.offer(job(s.q, "b"))[0]
		r.withdrawsOne(ticketed(b, s.q))
		r.withdrawsOne(ticketed(a, s.q))
		s.admits("x", 4)
		r.tallies(s.q, tally{waiting: 4, appended: 8, delivered: 4, refused: 1})
	}},
	{"the answer is the promise of a full queue, and moves the promise on", func(r *rig) {
		const ms = time.Millisecond
		s := r.overflowOf("g.q", "10/s", withCapacity(3))
		u := r.overflowOf("g.u", "unlimited", withCapacity(1))
		a, b := s.full("a", "b", "c", "d"), u.full("a")
		r.withdraws(
			[]queue.Ticketed{ticketed(a[0], s.q), ticketed(b[0], u.q), ticketed(a[1], s.q)}, 1*ms, 100*ms, 100*ms,
		)
		r.checkFull(s.q, "x", 200*ms)
		r.withdraws([]queue.Ticketed{ticketed(a[0], s.q)}, 300*ms) // in any case
		r.withdraws([]queue.Ticketed{{Queue: s.q, ID: "nobody", Ticket: a[2].Ticket}}, 400*ms)
		r.check(r.e.Pause(r.ctx, s.q, queue.Pause{}))
		r.withdraws([]queue.Ticketed{ticketed(a[2], s.q)}, 30*time.Second)
		r.withdraws(
			[]queue.Ticketed{{Queue: "nobody", ID: "a", Ticket: a[3].Ticket}, {Queue: "not a name"}, {}}, 0, 0, 0,
		)
		r.withdraws(nil)
		r.tallies(s.q, tally{waiting: 3, deferred: 1, appended: 3, setAside: 1, refused: 1})
		r.tallies(u.q, tally{waiting: 1, appended: 1})
	}},
	{"a withdrawal can be repeated", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(2))
		a := s.full("a", "b")
		for range 3 {
			r.withdrawsOne(ticketed(a[0], s.q))
		}
		both := []queue.Ticketed{ticketed(a[1], s.q), ticketed(a[1], s.q), ticketed(a[0], s.q)}
		r.withdraws(both, 100*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond)
		r.tallies(s.q, tally{waiting: 2, appended: 2})
	}},
	{"only the deferral of this very ticket is withdrawn", func(r *rig) {
		p, s := r.overflowOf("g.p", "unlimited", withCapacity(2)), r.overflowOf("g.q", "unlimited", withCapacity(2))
		other := p.full("a", "b")
		a := s.full("a", "b")
		stays := func(what string, t queue.Ticketed) {
			r.Helper()
			r.withdrawsOne(t)
			if i := r.info(s.q); i.Deferred != 2 || i.SetAside != 2 {
				r.Errorf("%s: %d deferred, %d set aside", what, i.Deferred, i.SetAside)
			}
		}
		stays("no ticket", queue.Ticketed{Queue: s.q, ID: "a"})
		stays("a neighbor's", queue.Ticketed{Queue: s.q, ID: "a", Ticket: a[1].Ticket})
		stays("another queue's", queue.Ticketed{Queue: s.q, ID: "a", Ticket: other[0].Ticket})
		stays("an invalid one", queue.Ticketed{Queue: s.q, ID: "a", Ticket: "x"})
		stays("one cut short", queue.Ticketed{Queue: s.q, ID: "a", Ticket: a[0].Ticket[:len(a[0].Ticket)-1]})
		stays("one with a leading zero", queue.Ticketed{Queue: s.q, ID: "a", Ticket: "0" + a[0].Ticket})
		stays("one with a tail", queue.Ticketed{Queue: s.q, ID: "a", Ticket: a[0].Ticket + "0"})

		r.withdrawsOne(ticketed(a[0], s.q))
		s.setAside("a")
		stays("the previous one", ticketed(a[0], s.q))
		r.state(queue.Deferred, s.q, "a")
	}},
	{"a job that is no longer deferred is left alone", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4))
		a := s.empties("cancelled", "back", "delivered", "dead")
		r.cancels(queue.Cancelled, s.q, "cancelled")
		s.takes(readmit.Passed, readmit.Returned, readmit.Returned)
		r.deliver(r.grant(s.q, 2, "back", "delivered")[1])
		s.takes(readmit.Returned)
		r.settled(queue.Dead, settlement(queue.Bury, r.grant(s.q, 1, "dead")[0]))
		want := tally{leased: 1, dead: 1, appended: 7, setAside: 4, returned: 3, cancelled: 1, delivered: 5, died: 1}
		r.tallies(s.q, want)
		for _, a := range a {
			r.withdrawsOne(ticketed(a, s.q))
		}
		r.tallies(s.q, want)
		for id, state := range map[string]queue.State{
			"cancelled": queue.Cancelled, "back": queue.Leased, "delivered": queue.Delivered, "dead": queue.Dead,
		} {
			r.state(state, s.q, id)
		}
	}},
	{"a cancelled deferral stays cancelled", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(1))
		a := s.full("a")
		r.cancels(queue.Cancelled, s.q, "a")
		r.withdrawsOne(ticketed(a[0], s.q))
		r.state(queue.Cancelled, s.q, "a")
		r.tallies(s.q, tally{waiting: 1, appended: 1, setAside: 1, cancelled: 1})
		s.takes(readmit.Passed) // it was stored after all
	}},
	{"a job withdrawn and stored after all comes back like any other", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(2))
		a := s.empties("a")
		r.withdrawsOne(ticketed(a[0], s.q))
		s.takes(readmit.Returned)
		r.beside[s.q]++
		r.tallies(s.q, tally{waiting: 1, appended: 3, returned: 1, delivered: 2})
		r.sameIDs(r.drain(s.q), "a")
	}},
	{"a ticket of a deleted queue is void once the queue is made again", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(1))
		a := s.full("a")
		r.delete(s.q)
		r.withdraws([]queue.Ticketed{ticketed(a[0], s.q)}, 0)
		s = r.overflowOf("q", "unlimited", withCapacity(1))
		s.full("a")
		r.withdrawsOne(ticketed(a[0], s.q))
		r.tallies(s.q, tally{waiting: 1, deferred: 1, appended: 1, setAside: 1})
	}},
}
