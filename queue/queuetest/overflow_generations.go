package queuetest

import (
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/queue"
)

// leaks sets jobs aside that never reach the overflow.
func (s *fakeOverflow) leaks(ids ...string) []queue.Appended {
	s.Helper()
	before, last := s.jobs, s.last
	a := s.setAside(ids...)
	s.jobs, s.last = before, last
	return a
}

// older returns the overflow of an empty queue with a leaked backlog in the older generation, which began just now.
func (r *rig) older(ids ...string) *fakeOverflow {
	r.Helper()
	s := r.overflowOf("q", "unlimited", withCapacity(4))
	s.full()
	s.leaks(ids...)
	r.drain(s.q)
	s.generation()
	return s
}

var generationRules = []rule{
	{
		"a record is given up once jobs set aside sufficiently later have overtaken it",
		func(r *rig) {
			s := r.older("leaked", "too")
			// One or two jobs are on the overflow at any time, so it is never seen empty.
			s.setAside("j0")
			for n, id := range numbered("j", 30) {
				r.clock.Advance(time.Second)
				s.setAside(id)
				if m := s.takes(readmit.Returned).Missing; m != 0 {
					r.Errorf("%d given up after %v", m, time.Duration(n)*time.Second)
				}
				r.drain(s.q)
			}
			r.clock.Advance(time.Microsecond)
			s.setAside("last")
			s.setAside("behind")
			// Set aside exactly that much later.
			r.found(s.takes(readmit.Returned), readmitState{room: 1, batch: 1, deferred: 4})
			r.drain(s.q)
			r.found(s.takes(readmit.Returned), readmitState{room: 1, batch: 1, deferred: 1, missing: 2})
			r.drain(s.q)
			r.unknown(s.q, "leaked")
			r.unknown(s.q, "too")
			r.state(queue.Deferred, s.q, "behind")
			s.takes(readmit.Returned)
			r.backlogged()
			r.tallies(s.q, tally{waiting: 1, appended: 37, setAside: 35, returned: 33, missing: 2, delivered: 36})
		},
	},
	{"an empty overflow also gives up only the older generation", func(r *rig) {
		s := r.older("leaked")
		r.clock.Advance(10 * time.Second)
		s.leaks("later")
		r.clock.Advance(queue.OrphanAfter - 10*time.Second + time.Microsecond)
		s.givesUp(1)
		r.unknown(s.q, "leaked")
		r.state(queue.Deferred, s.q, "later")
		r.clock.Advance(queue.OrphanAfter)
		s.givesUp(0)
		r.clock.Advance(time.Microsecond)
		s.givesUp(1)
		r.unknown(s.q, "later")
		r.backlogged()
	}},
	{"jobs that return in the same call are not missing", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(8))
		s.full("a")
		s.leaks("leaked", "withdrawn", "cancelled")
		withdrawn := r.offer(job(s.q, "withdrawn"))[0]
		s.setAside("done")
		r.drain(s.q)
		s.generation()
		r.withdrawsOne(ticketed(withdrawn, s.q))
		r.cancels(queue.Cancelled, s.q, "cancelled")
		r.clock.Advance(time.Hour)
		s.setAside("b", "c")
		req := s.request(3)
		req.Jobs[1].Done = true
		r.found(r.checkReadmit(req, readmit.Returned, readmit.Passed, readmit.Returned), readmitState{
			room: 2, batch: 1, deferred: 1, missing: 1,
		})
		r.beside[s.q]--
		r.tallies(s.q, tally{
			waiting: 2, deferred: 1, appended: 10, setAside: 6, returned: 2, missing: 1, cancelled: 1, delivered: 8,
		})
		r.unknown(s.q, "leaked")
		r.unknown(s.q, "cancelled") // nor can its job come back any more
		r.state(queue.Deferred, s.q, "c")
	}},
	{"the first job that stays proves as much as the returning ones", func(r *rig) {
		s := r.older("leaked")
		r.clock.Advance(time.Hour)
		s.setAside("a")
		req := s.request(1)
		req.Closed = true
		r.found(r.checkReadmit(req, readmit.NotYet), readmitState{room: 2, batch: 1, deferred: 1, missing: 1})
		r.unknown(s.q, "leaked")
		r.state(queue.Deferred, s.q, "a")
	}},
	{"while the head of the overflow waits, nothing behind it is given up", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(2))
		s.full("head", "next")
		s.generation()
		s.leaks("leaked")
		for range 5 {
			r.clock.Advance(time.Hour)
			s.setAside(r.clock.Now().Time().Format("15h04"))
			if n := s.takes(readmit.NotYet).Missing; n != 0 {
				r.Errorf("%d given up", n)
			}
		}
		r.state(queue.Deferred, s.q, "leaked")
	}},
	{"only a job with a ticket proves what was seen, and none from the future", func(r *rig) {
		s := r.older("leaked")
		for _, ticket := range []queue.Ticket{"", "x", "another.1"} {
			s.addUnknown("stray" + string(ticket))
			s.jobs[0].Ticket = ticket
			s.jobs[0].At = r.clock.Now().Add(time.Hour).Time()
			if ticket != "" {
				s.takes(readmit.Orphaned)
				s.done(1)
				continue
			}
			s.takes(readmit.Returned)
			r.beside[s.q]++
			r.drain(s.q)
		}
		s.setAside("a", "b")
		s.jobs[0].At = r.clock.Now().Add(time.Hour).Time()
		r.clock.Advance(queue.OrphanAfter)
		r.found(s.takes(readmit.Returned), readmitState{room: 1, batch: 1, deferred: 2})
		s.jobs[0].At = r.clock.Now().Add(time.Hour).Time()
		r.clock.Advance(time.Microsecond)
		r.found(s.takes(readmit.Returned), readmitState{batch: 1, missing: 1})
	}},
	{"asking for room, or in vain, starts no generation", func(r *rig) {
		s := r.older("leaked")
		r.clock.Advance(time.Hour)
		s.leaks("later")
		r.found(r.readmit(s.request(0)), readmitState{room: 2, batch: 1, deferred: 2})
		busy := s.request(0)
		busy.Holder, busy.Empty = "another", true
		if res, err := r.e.Readmit(r.ctx, busy); err != nil || res.Busy == 0 {
			r.Fatalf("%+v, %v", res, err)
		}
		s.givesUp(1)
	}},
	{"a job deferred again has a new ticket, and its copy has time to arrive", func(r *rig) {
		s := r.older("a", "leaked")
		j := job(s.q, "a")
		r.clock.Advance(10 * time.Second)
		again := r.offered(queue.Duplicate, j)
		if again.State != queue.Deferred || again.Ticket == "" || !again.At.Equal(r.clock.Now().Time()) {
			r.Errorf("%+v", again)
		}
		r.deferredAgain(r.offer(j)[0], again)
		r.deferredAgain(r.append(j)[0], again)
		r.clock.Advance(queue.OrphanAfter - 10*time.Second + time.Microsecond)
		s.givesUp(1)
		r.unknown(s.q, "leaked")
		r.state(queue.Deferred, s.q, "a")
		other := j
		other.Payload = []byte("other")
		r.offered(queue.Conflict, other)
		s.store(j, again)
		s.store(j, again)
		s.takes(readmit.Returned, readmit.Passed)
		r.tallies(s.q, tally{waiting: 1, appended: 5, setAside: 2, returned: 1, missing: 1, delivered: 4})
		r.backlogged()
	}},
	{"its old ticket is void", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(2))
		first := s.full("a", "b")
		s.generation()
		again := r.offered(queue.Duplicate, job(s.q, "a"))
		if again.Ticket == first[0].Ticket {
			r.Errorf("still ticket %q", again.Ticket)
		}
		if j := r.job(s.q, "a"); j.Position != 4 || instantOf(j.AppendedAt) != instantOf(first[0].At) {
			r.Errorf("%+v, want it behind b, appended at %v", j, first[0].At)
		}
		r.withdrawsOne(ticketed(first[0], s.q))
		r.state(queue.Deferred, s.q, "a")
		s.done(1) // the first copy
		r.state(queue.Deferred, s.q, "a")
		r.beside[s.q]--
		r.cancels(queue.Cancelled, s.q, "b")
		r.offered(queue.Duplicate, job(s.q, "b"))
		r.withdrawsOne(ticketed(again, s.q))
		r.unknown(s.q, "a")
		r.beside[s.q]++
		r.tallies(s.q, tally{waiting: 2, deferred: 1, appended: 2, setAside: 1, cancelled: 1})
	}},
	{"given-up jobs are ahead of nobody, and keep their cost", func(r *rig) {
		s := r.overflowOf("q", "10/s", withCapacity(2))
		s.full()
		s.asideJobs(costing(5, s.q, "a"), costing(7, s.q, "b"))
		s.jobs = nil
		s.generation()
		r.clock.Advance(time.Second)
		s.asideJobs(costing(3, s.q, "c"))
		r.drain(s.q)
		r.clock.Advance(time.Hour)
		s.givesUp(2)
		r.checkDeferred(s.setAside("d")[0], 2, r.clock.Now().Add(300*time.Millisecond))
	}},
	{"another queue's overflow, or another spec, starts no generation", func(r *rig) {
		s := r.older("leaked")
		r.clock.Advance(20 * time.Second)
		req := s.request(0)
		req.Overflow = "another"
		r.readmit(req)
		r.queue(s.q, "unlimited", withCapacity(6), defers)
		r.clock.Advance(10*time.Second + time.Microsecond)
		req.Empty = true
		if n := r.readmit(req).Missing; n != 1 {
			r.Errorf("%d given up", n)
		}
	}},
	{"a queue made again starts without a generation", func(r *rig) {
		s := r.older("leaked")
		r.clock.Advance(time.Hour)
		r.delete(s.q)
		s = r.overflowOf(s.q, "unlimited", withCapacity(4))
		s.full()
		s.leaks("leaked")
		s.generation()
		r.state(queue.Deferred, s.q, "leaked")
		r.clock.Advance(queue.OrphanAfter + time.Microsecond)
		s.givesUp(1)
	}},
}
