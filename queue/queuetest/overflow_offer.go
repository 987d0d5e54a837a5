package queuetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// withOverflow returns a job with its own choice of overflow.
func withOverflow(overflow, queueName, id string) queue.Job {
	j := job(queueName, id)
	j.Overflow = overflow
	return j
}

var offerRules = []rule{
	{"a job is set aside by its own choice, or else by the queue's", func(r *rig) {
		for _, tt := range []struct {
			spec, job  string
			deferrable bool
		}{
			{queue.Reject, "", false},
			{queue.Reject, queue.Reject, false},
			{queue.Reject, queue.Defer, true},
			{queue.Defer, "", true},
			{queue.Defer, queue.Reject, false},
			{queue.Defer, queue.Defer, true},
		} {
			name := fmt.Sprintf("g.%s-%s", tt.spec, tt.job)
			whenFull, behind := queue.Full, queue.Accepted
			if tt.deferrable {
				whenFull, behind = queue.SetAside, queue.SetAside
			}
			q := r.queue(
				strings.TrimSuffix(name, "-"), "unlimited", withCapacity(2),
				func(s *queue.Spec) { s.Overflow = tt.spec },
			)
			offered := func(
				want queue.AppendOutcome, id string,
			) {
				r.Helper()
				r.offered(want, withOverflow(tt.job, q, id))
			}
			offered(queue.Accepted, "a")
			offered(queue.Accepted, "b")
			offered(whenFull, "c")
			r.offered(queue.SetAside, withOverflow(queue.Defer, q, "d")) // makes a backlog, unless there already is a backlog
			r.deliver(r.reserve(q, 2)...)
			offered(behind, "e")
			if i := r.info(q); i.Size() > 1 {
				r.Errorf("%s: %d in the queue", q, i.Size())
			}
			r.delete(q)
		}
	}},
	{"Append never sets a job aside, whatever the job's choice", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(2))
		list := []queue.Job{
			withOverflow(queue.Defer, s.q, "a"), withOverflow("", s.q, "b"), withOverflow(queue.Defer, s.q, "c"),
			withOverflow("", s.q, "d"),
		}
		r.outcomes(r.append(list...), queue.Accepted, queue.Accepted, queue.Full, queue.Full)
		s.setAside("e")
		r.drain(s.q)
		// With a backlog and an empty queue, one of the two places is reserved for returning jobs.
		r.outcomes(r.append(list[2], list[3]), queue.Accepted, queue.Full)
		r.tallies(s.q, tally{waiting: 1, deferred: 1, appended: 3, setAside: 1, delivered: 2, refused: 3})
	}},
	{"while there is room, an offer is an append", func(r *rig) {
		s := r.overflowOf("q", "10/s", withCapacity(2))
		t0 := r.clock.Now()
		for i, a := range r.offer(jobs(s.q, "a", "b")...) {
			want := t0.Add(time.Duration(i) * 100 * time.Millisecond)
			if a.Outcome != queue.Accepted || a.State != queue.Waiting || a.Position != int64(i+1) ||
				!a.ETA.At.Equal(want.Time()) || !a.ETA.Exact ||
				a.Ticket != "" || !a.At.IsZero() || a.RetryAfter != 0 {
				r.Errorf("got %+v", a)
			}
		}
		if a := r.offered(queue.Duplicate, job(s.q, "b")); a.State != queue.Waiting || a.Position != 2 ||
			a.Ticket != "" {
			r.Errorf("again: %+v", a)
		}
		other := job(s.q, "a")
		other.Payload = []byte("other")
		r.offered(queue.Conflict, other)
		r.tallies(s.q, tally{waiting: 2, appended: 2})
	}},
	{"an invalid job, or one of an unknown queue, is refused alone", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(1))
		costly, lost := job(s.q, "costly"), job("nobody", "lost")
		costly.Cost = -1
		a := r.offer(job(s.q, "a"), costly, lost, withOverflow("later", s.q, "b"), job(s.q, "c"))
		r.outcomes(a, queue.Accepted, queue.Invalid, queue.UnknownQueue, queue.Invalid, queue.SetAside)
		if kind(a[1].Err) != "field cost" || kind(a[3].Err) != "field overflow" {
			r.Errorf("%v; %v", a[1].Err, a[3].Err)
		}
	}},
	{"offering nothing does nothing", func(r *rig) {
		if a, err := r.e.Offer(r.ctx, nil); err != nil || len(a) != 0 {
			r.Errorf("got %v, %v", a, err)
		}
	}},
	{"the first job set aside makes a backlog for the jobs behind it", func(r *rig) {
		s := r.overflowOf("g.q", "unlimited", withCapacity(3), func(s *queue.Spec) { s.Deferred.MaxJobs = 3 })
		other := r.queue("g.other", "unlimited", withCapacity(3))
		no := func(id string) queue.Job { return withOverflow(queue.Reject, s.q, id) }
		list := []queue.Job{
			job(s.q, "a"), no("b"), job(s.q, "c"), no("d"), job(s.q, "e"), job(other, "e"), job(s.q, "f"),
			job(s.q, "e"), job(s.q, "g"),
			job(s.q, "h"), no("i"), job(s.q, "a"), withOverflow(queue.Defer, other, "f"),
		}
		a := r.offer(list...)
		r.outcomes(a, queue.Accepted, queue.Accepted, queue.Accepted, queue.Full, queue.SetAside, queue.Accepted,
			queue.SetAside, queue.Duplicate, queue.SetAside,
			queue.OverflowFull, queue.Full, queue.Duplicate, queue.Accepted)
		for i, want := range map[int]int64{4: 4, 6: 5, 8: 6} {
			if a[i].Position != want || a[i].State != queue.Deferred {
				r.Errorf("%s: %+v, want it at %d", a[i].ID, a[i], want)
			}
		}
		if a[7].State != queue.Deferred || a[7].Ticket != a[4].Ticket {
			r.Errorf("the second e: %+v, the first had ticket %q", a[7], a[4].Ticket)
		}
		r.tallies(s.q, tally{waiting: 3, deferred: 3, appended: 3, setAside: 3, refused: 3})
		r.tallies(other, tally{waiting: 2, appended: 2})
	}},
	{"a free place does not let a deferrable job pass the backlog", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(10))
		s.empties("a", "b")
		a := s.setAside("c", "d")
		if a[0].Position != 3 || a[1].Position != 4 {
			r.Errorf("at %d and %d, want 3 and 4", a[0].Position, a[1].Position)
		}
		s.takes(readmit.Returned, readmit.Returned)
		s.setAside("e")
		s.takes(readmit.Returned, readmit.Returned, readmit.Returned)
		r.offered(queue.Accepted, job(s.q, "f")) // the backlog is gone
		r.sameIDs(r.drain(s.q), "a", "b", "c", "d", "e", "f")
	}},
	{"a ticket is short and printable, and names one deferral", func(r *rig) {
		p, s := r.overflowOf("g.p", "unlimited", withCapacity(1)), r.overflowOf("g.q", "unlimited", withCapacity(1))
		seen := map[queue.Ticket]bool{}
		for _, a := range append(p.full(numbered("j", 100)...), s.full(numbered("j", 100)...)...) {
			if len(a.Ticket) > queue.MaxTicketBytes ||
				strings.ContainsFunc(string(a.Ticket), func(c rune) bool { return c <= ' ' || c > '~' }) {
				r.Fatalf("ticket %q", a.Ticket)
			}
			seen[a.Ticket] = true
		}
		if len(seen) < 100 { // at least one for each job in its queue
			r.Errorf("%d tickets of 200 deferrals", len(seen))
		}
	}},
	{"jobs beyond max_deferred are refused with promises one interval apart", func(r *rig) {
		s := r.overflowOf("q", "10/s", withCapacity(2), func(s *queue.Spec) { s.Deferred.MaxJobs = 2 })
		s.full("a", "b")
		promised := func(want time.Duration, outcome queue.AppendOutcome, j queue.Job) {
			r.Helper()
			if a := r.offered(outcome, j); a.RetryAfter != want || a.State != queue.StateNone || a.Position != 0 ||
				a.Ticket != "" || a.Err != nil {
				r.Errorf("%s: %+v, want to come back after %v", j.ID, a, want)
			}
		}
		const ms = time.Millisecond
		promised(1*ms, queue.OverflowFull, job(s.q, "c"))
		promised(100*ms, queue.Full, withOverflow(queue.Reject, s.q, "d"))
		promised(200*ms, queue.OverflowFull, job(s.q, "e"))
		promised(300*ms, queue.OverflowFull, job(s.q, "c"))
		r.tallies(s.q, tally{waiting: 2, deferred: 2, appended: 2, setAside: 2, refused: 4})
		other := job(s.q, "c") // a refusal is not remembered
		other.Payload = []byte("other")
		s.q = r.queue(s.q, "10/s", withCapacity(2), defers, func(s *queue.Spec) { s.Deferred.MaxJobs = 3 })
		s.asideJobs(other)
		r.offered(queue.OverflowFull, job(s.q, "f"))
		r.queue(s.q, "10/s", withCapacity(2), defers, func(s *queue.Spec) { s.Deferred.MaxJobs = 1 })
		r.drain(s.q)
		s.takes(readmit.Returned, readmit.NotYet)
		r.offered(queue.OverflowFull, job(s.q, "f"))
		r.drain(s.q)
		s.takes(readmit.Returned)
		r.offered(queue.OverflowFull, job(s.q, "f"))
		r.drain(s.q)
		s.takes(readmit.Returned)
		r.offered(queue.Accepted, job(s.q, "f"))
	}},
	{"many callers: each job is accepted or set aside once, up to the limits", func(r *rig) {
		const capacity, most = 40, 150
		s := r.overflowOf("q", "unlimited", withCapacity(capacity), func(s *queue.Spec) { s.Deferred.MaxJobs = most })
		list := numbered("j", 250)
		var accepted, aside [8]int
		_, _ = r.crowd(len(accepted), func(worker int) int {
			for i := 0; i < len(list); i += 10 {
				a, err := r.e.Offer(r.ctx, jobs(s.q, list[i:i+10]...))
				if err != nil {
					r.Errorf("offer: %v", err)
				}
				for _, a := range a {
					switch a.Outcome {
					case queue.Accepted:
						accepted[worker]++
					case queue.SetAside:
						aside[worker]++
					case queue.Duplicate, queue.OverflowFull:
					default:
						r.Errorf("%s: %v, %v", a.ID, a.Outcome, a.Err)
					}
				}
			}
			return 0
		})
		in, out := 0, 0
		for i := range accepted {
			in, out = in+accepted[i], out+aside[i]
		}
		if i := r.info(s.q); in != capacity || out != most || i.Appended != capacity || i.Waiting != capacity ||
			i.SetAside != most || i.Deferred != most {
			r.Errorf("%d in and %d set aside, want %d and %d: %+v", in, out, capacity, most, i)
		}
	}},
}

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
