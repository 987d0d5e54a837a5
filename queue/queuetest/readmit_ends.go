package queuetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

// done reports the first jobs on the overflow as dealt with.
func (s *fakeOverflow) done(count int) queue.Readmitted {
	s.Helper()
	req := s.request(count)
	for i := range req.Jobs {
		req.Jobs[i].Done = true
	}
	res := s.checkReadmit(req, repeat(readmit.Passed, count)...)
	s.jobs = s.jobs[count:]
	if res.Order != req.Jobs[count-1].Order {
		s.Errorf("the order is %d, want %d", res.Order, req.Jobs[count-1].Order)
	}
	return res
}

// another changes the payload of a job on the overflow.
func (s *fakeOverflow) another(i int) { s.jobs[i].Payload = []byte("another") }

var readmitDoneRules = []rule{
	{"a job dealt with elsewhere is passed over, and its record ends", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4))
		s.empties("a", "b", "c")
		if res := s.done(1); res.Deferred != 2 {
			r.Errorf("%d deferred", res.Deferred)
		}
		r.beside[s.q]--
		r.unknown(s.q, "a")
		r.tallies(s.q, tally{deferred: 2, appended: 4, setAside: 3, delivered: 4})
		s.takes(readmit.Returned, readmit.Returned)
		r.offered(queue.Accepted, job(s.q, "a")) // the id is free, and the backlog gone
		r.sameIDs(r.drain(s.q), "b", "c", "a")
	}},
	{"it ends only the record with its own ticket", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4))
		s.generation() // so that they keep their tickets
		a := s.empties("a", "b", "c")
		s.jobs[0].Ticket = ""
		s.jobs[1].Ticket = a[2].Ticket
		if res := s.done(2); res.Deferred != 3 {
			r.Errorf("%d deferred", res.Deferred)
		}
		for _, a := range a {
			r.deferredAgain(r.offer(job(s.q, a.ID))[0], a)
		}
		r.cancels(queue.Cancelled, s.q, "c") // no longer counted as deferred
		if res := s.done(1); res.Deferred != 2 {
			r.Errorf("%d deferred", res.Deferred)
		}
		r.unknown(s.q, "c")
	}},
	{"jobs in the queue are unaffected", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4))
		s.empties("a", "b")
		s.jobs = append(s.jobs, s.jobs[0])
		s.jobs[2].Order = s.jobs[1].Order + 1
		s.takes(readmit.Returned, readmit.Returned)
		s.done(1)
		r.state(queue.Waiting, s.q, "a")
		r.sameIDs(r.drain(s.q), "a", "b")
	}},
	{"another job with its id is a clash, and blocks the overflow until dealt with", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(20))
		r.accept(s.q, "waiting", "leased", "dead", "delivered")
		v := r.grant(s.q, 4, "waiting", "leased", "dead", "delivered")
		r.release(v[0])
		r.settled(queue.Dead, settlement(queue.Bury, v[2]))
		r.deliver(v[3])
		for _, id := range []string{"waiting", "leased", "dead", "delivered"} {
			s.addUnknown(id)
			s.another(0)
			s.addUnknown(id + "-next")
			s.takes(readmit.Clash, readmit.NotYet)
			s.takes(readmit.Clash)
			s.done(1)
			s.takes(readmit.Returned)
			r.beside[s.q]++
		}
		for id, want := range map[string]queue.State{
			"waiting": queue.Waiting, "leased": queue.Leased, "dead": queue.Dead, "delivered": queue.Delivered,
		} {
			r.duplicate(job(s.q, id), want, map[queue.State]int64{queue.Waiting: 1}[want])
		}
		r.tallies(s.q, tally{waiting: 5, leased: 1, dead: 1, appended: 8, returned: 4, delivered: 1, died: 1})
	}},
	{"a clash with a deferred job, even a cancelled one", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(20))
		s.empties("a", "b", "c")
		mine := s.jobs[0]
		for _, what := range []string{"recorded", "cancelled"} {
			for other, j := range changed(costing(1, s.q, "a")) {
				req := s.request(3)
				req.Jobs[0].Job = j
				if res := r.checkReadmit(
					req, readmit.Clash, readmit.NotYet, readmit.NotYet,
				); res.Deferred+r.info(s.q).Cancelled != 3 {
					r.Errorf("%s, another %s: %d deferred", what, other, res.Deferred)
				}
			}
			r.cancels(queue.Cancelled, s.q, "a")
		}
		other := mine
		other.Job, other.Done, other.Ticket = changed(costing(1, s.q, "a"))["payload"], true, ""
		s.jobs[0] = other
		s.done(1)
		mine.Order = s.jobs[1].Order + 1
		s.jobs = append(s.jobs, mine)
		s.takes(readmit.Returned, readmit.Returned, readmit.Passed)
	}},
	{"a job set aside for a deleted queue is an orphan in the new queue", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(20))
		s.empties("a", "b", "c")
		s.takes(readmit.Returned)
		r.delete(s.q)
		_, err := r.e.Readmit(r.ctx, s.request(2))
		r.refuses(err, queue.ErrUnknownQueue)
		r.queue(s.q, "unlimited", defers, withCapacity(20))
		s.holder = "another" // nobody holds the way back into the new queue
		s.addUnknown("d")
		if res := s.takes(readmit.Orphaned, readmit.NotYet, readmit.NotYet); res.Order != 0 || res.Deferred != 0 {
			r.Errorf("%+v", res)
		}
		r.offered(queue.SetAside, job(s.q, "b")) // behind the jobs seen
		s.takes(readmit.Orphaned)
		s.done(1)
		r.state(queue.Deferred, s.q, "b") // under another ticket
		s.takes(readmit.Orphaned)
		s.done(1)
		s.takes(readmit.Returned) // d, which the old queue never recorded
		r.beside[s.q]++
		r.tallies(s.q, tally{waiting: 1, deferred: 1, appended: 1, setAside: 1, returned: 1})
	}},
	{"a foreign ticket makes an orphan", func(r *rig) {
		p, s := r.overflowOf("g.p", "unlimited", withCapacity(2)), r.overflowOf("g.q", "unlimited", withCapacity(2))
		other := p.full("a")[0]
		a := s.empties("a")[0]
		for _, t := range []queue.Ticket{
			"x", "-", " ", "\x00", "0", "0-0", "-1", other.Ticket, a.Ticket + "!", " " + a.Ticket, "0" + a.Ticket,
			queue.Ticket(strings.Repeat("9", 10_000)),
		} {
			req := s.request(1)
			req.Jobs[0].Ticket = t
			if res := r.checkReadmit(req, readmit.Orphaned); res.Deferred != 1 {
				r.Errorf("%.20q: %d deferred", t, res.Deferred)
			}
		}
		s.takes(readmit.Returned)
	}},
	{"an invalid job is unreadable, and blocks the overflow until dealt with", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(20))
		s.empties("a", "b")
		long := strings.Repeat("i", names.MaxIDBytes+1)
		for what, change := range map[string]func(*queue.Readmission){
			"no id":          func(j *queue.Readmission) { j.ID = "" },
			"id blank":       func(j *queue.Readmission) { j.ID = "a b" },
			"id long":        func(j *queue.Readmission) { j.ID = long },
			"cost":           func(j *queue.Readmission) { j.Cost = -1 },
			"cost beyond":    func(j *queue.Readmission) { j.Cost = 1 << 40 },
			"payload":        func(j *queue.Readmission) { j.Payload = make([]byte, queue.MaxPayloadBytes+1) },
			"content type":   func(j *queue.Readmission) { j.ContentType = "a\nb" },
			"headers":        func(j *queue.Readmission) { j.Headers = map[string]string{"Host": "x"} },
			"expires at":     func(j *queue.Readmission) { j.ExpiresAt = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC) },
			"other overflow": func(j *queue.Readmission) { j.Overflow = "later" },
		} {
			req := s.request(2)
			req.Jobs[0].Ticket = ""
			change(&req.Jobs[0])
			if res := r.checkReadmit(req, readmit.Unreadable, readmit.NotYet); res.Deferred != 2 || res.Order != 0 {
				r.Errorf("%s: %+v", what, res)
			}
		}
		s.jobs[0].ID = long
		s.takes(readmit.Unreadable)
		s.done(1)
		s.takes(readmit.Returned)
		r.sameIDs(r.drain(s.q), "b")
	}},
}

var readmitClosedRules = []rule{
	{"a closed readmission accepts nothing, and keeps the order and the backlog", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4))
		s.empties("a", "b")
		req := s.request(2)
		req.Closed = true
		r.found(r.checkReadmit(req, readmit.NotYet, readmit.NotYet), readmitState{room: 2, batch: 1, deferred: 2})
		r.offered(queue.SetAside, job(s.q, "c"))
		r.tallies(s.q, tally{deferred: 3, appended: 4, setAside: 3, delivered: 4})
		s.takes(readmit.Returned, readmit.Returned)
	}},
	{"a closed readmission finishes jobs that need no place, up to the first that needs one", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4), deferredFor(time.Minute, time.Hour))
		s.empties("old", "cancelled", "done")
		r.clock.Advance(time.Minute + time.Microsecond)
		s.setAside("fresh", "late", "behind")
		r.cancels(queue.Cancelled, s.q, "cancelled")
		s.jobs[2].Done = true
		s.jobs[4].ExpiresAt = r.clock.Now().Time()
		req := s.request(6)
		req.Closed = true
		r.found(
			r.checkReadmit(req, readmit.TooOld, readmit.Passed, readmit.Passed, readmit.NotYet, readmit.NotYet, readmit.NotYet),
			readmitState{room: 2, batch: 1, deferred: 3},
		)
		r.beside[s.q]--
		s.jobs = s.jobs[3:]
		s.takes(readmit.Returned, readmit.TooLate, readmit.Returned)
		r.tallies(s.q, tally{
			waiting: 2, dead: 2, appended: 6, setAside: 6, returned: 2, cancelled: 1, delivered: 4, died: 2,
		})
	}},
}

var readmitDeadRules = []rule{
	{"a job deferred for longer than max_age is dead", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(20), deferredFor(90*time.Minute, 2*time.Hour))
		t0 := r.clock.Now()
		s.full()
		s.asideJobs(costing(3, s.q, "a"))
		s.setAside("b")
		r.drain(s.q)
		r.clock.Set(t0.Add(90 * time.Minute))
		s.jobs[1].At = s.jobs[1].At.Add(-time.Microsecond)
		if res := s.takes(readmit.Returned, readmit.TooOld); res.Deferred != 0 {
			r.Errorf("%d deferred", res.Deferred)
		}
		r.checkJob(s.q, "b", seen{
			state: queue.Dead, cost: 1, appended: t0.Add(-time.Microsecond), ended: r.clock.Now(),
			reason: "deferred for longer than max_age 1h30m0s",
		})
		r.tallies(s.q, tally{waiting: 1, dead: 1, appended: 21, setAside: 2, returned: 1, delivered: 20, died: 1})
		if i := r.info(s.q); len(i.Errors) != 0 {
			r.Errorf("no drainer reported %+v", i.Errors)
		}
		r.duplicate(job(s.q, "b"), queue.Dead, 0)
		r.clock.Advance(2*time.Hour - time.Microsecond)
		r.duplicate(job(s.q, "b"), queue.Dead, 0)
		other := job(s.q, "b")
		other.Payload = []byte("other")
		r.offered(queue.Conflict, other)
		r.clock.Advance(time.Microsecond)
		r.offered(queue.Accepted, other)
	}},
	{"a job that expired while deferred is dead", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(20))
		t0 := r.clock.Now()
		until := time.Date(2026, 9, 1, 12, 0, 59, 999_999_999, time.UTC) // in the last microsecond of that minute
		list := jobs(s.q, "a", "b")
		list[0].ExpiresAt, list[1].ExpiresAt = until.In(time.FixedZone("east", 2*3600)), until.Add(time.Microsecond)
		s.full()
		s.asideJobs(list...)
		r.drain(s.q)
		at := t0.Add(time.Minute - time.Microsecond)
		r.clock.Set(at)
		s.takes(readmit.TooLate, readmit.Returned)
		r.checkJob(s.q, "a", seen{
			state: queue.Dead, cost: 1, appended: t0, ended: at,
			reason: "expired at 2026-09-01T12:00:59Z, while it was deferred",
		})
		r.tallies(s.q, tally{waiting: 1, dead: 1, appended: 21, setAside: 2, returned: 1, delivered: 20, died: 1})
		r.sameIDs(r.drain(s.q), "b")
	}},
	{"max_age is checked before the deadline, and neither needs room, a record or a ticket", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(1), deferredFor(time.Hour, 24*time.Hour))
		s.full()
		for _, hours := range []int{1, 2, 3} {
			s.addUnknown(fmt.Sprint(hours))
			j := &s.jobs[len(s.jobs)-1]
			j.At = r.clock.Now().Add(-time.Duration(hours) * time.Hour).Time()
			if hours != 2 {
				j.ExpiresAt = j.At.Add(time.Minute)
			}
		}
		s.takes(readmit.TooLate, readmit.TooOld, readmit.TooOld)
		r.beside[s.q] += 3
		r.tallies(s.q, tally{waiting: 1, dead: 3, appended: 1, died: 3})
		for id, want := range map[string]string{"1": "expired", "2": "deferred for", "3": "deferred for"} {
			if j := r.job(s.q, id); !strings.HasPrefix(j.Reason, want) {
				r.Errorf("%s: %q", id, j.Reason)
			}
		}
	}},
	{"clashes, orphans and known jobs keep their outcome at any age", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4), deferredFor(time.Minute, time.Hour))
		r.accept(s.q, "waiting")
		s.addUnknown("waiting", "waiting", "x")
		s.jobs[1].Payload = []byte("another")
		s.jobs[2].Ticket = "x"
		for i := range s.jobs {
			s.jobs[i].At = r.clock.Now().Add(-time.Hour).Time()
		}
		s.takes(readmit.Passed, readmit.Clash)
		s.done(1)
		s.takes(readmit.Orphaned)
	}},
	{"the current max_age counts", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4), deferredFor(time.Hour, 2*time.Hour))
		s.empties("a", "b")
		r.clock.Advance(30 * time.Minute)
		r.queue(s.q, "unlimited", defers, withCapacity(4), deferredFor(20*time.Minute, 2*time.Hour))
		s.takes(readmit.TooOld)
		r.queue(s.q, "unlimited", defers, withCapacity(4), deferredFor(2*time.Hour, 2*time.Hour))
		r.clock.Advance(time.Hour)
		s.takes(readmit.Returned)
	}},
	{"dead jobs of the overflow count among the other dead jobs", func(r *rig) {
		s := r.overflowOf(
			"q", "unlimited", withCapacity(4), deferredFor(time.Minute, time.Hour),
			func(s *queue.Spec) { s.Retention.Max = 3 },
		)
		s.addUnknown("a", "b", "c", "d", "e")
		r.clock.Advance(2 * time.Minute)
		for range 5 {
			s.takes(readmit.TooOld)
			r.beside[s.q]++
			r.clock.Advance(time.Millisecond)
		}
		r.reserve(s.q, 1)
		if i := r.info(s.q); i.Died != 5 || i.Dead != 3 {
			r.Errorf("%d dead kept of %d", i.Dead, i.Died)
		}
		r.unknown(s.q, "b")
		r.state(queue.Dead, s.q, "c")
	}},
	{"a clock that ran backward makes no job too old", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4), deferredFor(time.Minute, time.Hour))
		s.addUnknown("a")
		s.jobs[0].At = r.clock.Now().Add(24 * time.Hour).Time()
		s.takes(readmit.Returned)
		r.beside[s.q]++
	}},
}
