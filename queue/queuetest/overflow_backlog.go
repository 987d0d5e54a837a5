package queuetest

import (
	"slices"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// empty reports the queue's overflow as empty and returns how many records were given up.
func (s *fakeOverflow) empty() int64 {
	s.Helper()
	req := s.request(0)
	req.Empty, req.Behind = true, 0
	return s.checkReadmit(req).Missing
}

// givesUp is empty, and checks the number of records given up.
func (s *fakeOverflow) givesUp(want int64) {
	s.Helper()
	if n := s.empty(); n != want {
		s.Errorf("%d given up, want %d", n, want)
	}
}

// generation starts a generation, so that all present records belong to the older one.
func (s *fakeOverflow) generation() {
	s.Helper()
	s.givesUp(0)
}

// backlogged checks which queues have a backlog.
func (r *rig) backlogged(want ...string) {
	r.Helper()
	got, err := r.e.Backlogged(r.ctx, 1000)
	slices.Sort(got)
	if err != nil || !slices.Equal(got, want) {
		r.Errorf("backlogged: %v, %v; want %v", got, err, want)
	}
}

var backlogRules = []rule{
	{"jobs seen behind make a backlog, recorded or not", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4))
		s.addUnknown("a", "b", "c")
		r.offered(queue.Accepted, job(s.q, "x")) // nobody has looked yet
		r.found(r.readmit(s.request(0)), readmitState{room: 2, batch: 1})
		r.tallies(s.q, tally{waiting: 1, deferred: 3, appended: 1})
		if t, err := r.e.Totals(r.ctx); err != nil || t.Deferred != 0 { // none is recorded
			r.Errorf("totals %+v, %v", t, err)
		}
		r.offered(queue.SetAside, job(s.q, "d"))
		s.admits("y", 1)
		s.takes(readmit.Returned)
		r.tallies(s.q, tally{waiting: 3, deferred: 2, appended: 3, setAside: 1, returned: 1, refused: 1})
		r.drain(s.q)
		s.takes(readmit.Returned, readmit.Returned)
		r.beside[s.q] = 3
		r.tallies(s.q, tally{waiting: 2, deferred: 1, appended: 5, setAside: 1, returned: 3, delivered: 3, refused: 1})
		r.backlogged(s.q) // d
	}},
	{"each call reports what was seen, and the last report counts", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4))
		sees := func(behind, want int64) {
			r.Helper()
			r.readmit(queue.ReadmitRequest{Queue: s.q, Holder: "h", Behind: behind})
			if i := r.info(s.q); i.Deferred != want {
				r.Errorf("%d deferred, want %d", i.Deferred, want)
			}
		}
		sees(5, 5)
		sees(1_000_000_000, 1_000_000_000)
		sees(2, 2)
		r.offered(queue.SetAside, job(s.q, "a"))
		r.offered(queue.SetAside, job(s.q, "b"))
		r.offered(queue.SetAside, job(s.q, "c"))
		sees(2, 3)
		sees(4, 4)
		sees(0, 3)
		r.backlogged(s.q)
	}},
	{"a readmitted job that found no room is behind too", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(2))
		r.accept(s.q, "full1", "full2")
		s.addUnknown("a", "b", "c", "d")
		s.takes(readmit.NotYet, readmit.NotYet)
		r.tallies(s.q, tally{waiting: 2, deferred: 4, appended: 2})
		r.drain(s.q)
		r.offered(queue.SetAside, job(s.q, "x"))
		s.takes(readmit.Returned, readmit.NotYet, readmit.NotYet, readmit.NotYet)
		r.tallies(s.q, tally{waiting: 1, deferred: 3, appended: 3, setAside: 1, returned: 1, delivered: 2})
		r.beside[s.q]++
		s.another(0)
		s.jobs[0].ID = "a"
		s.takes(readmit.Clash)
		r.tallies(s.q, tally{waiting: 1, deferred: 3, appended: 3, setAside: 1, returned: 1, delivered: 2})
	}},
	{"a queue is backlogged while something is recorded or behind", func(r *rig) {
		a, b, c := r.overflowOf("a", "unlimited", withCapacity(2)), r.overflowOf(
			"b.x", "unlimited", withCapacity(2),
		), r.overflowOf("c", "unlimited", withCapacity(2))
		r.queue("d", "unlimited")
		r.backlogged()
		a.empties("1", "2")
		r.backlogged("a")
		b.empties("1")
		c.addUnknown("1")
		r.readmit(c.request(0))
		r.backlogged("a", "b.x", "c")
		for limit, want := range map[int]int{-1: 0, 0: 0, 1: 1, 2: 2, 3: 3, 4: 3} {
			got, err := r.e.Backlogged(r.ctx, limit)
			slices.Sort(got)
			if err != nil || len(got) != want || len(slices.Compact(got)) != want || slices.Contains(got, "d") {
				r.Errorf("up to %d: %v, %v", limit, got, err)
			}
		}
		a.takes(readmit.Returned)
		r.backlogged("a", "b.x", "c")
		r.drain(a.q)
		r.cancels(queue.Cancelled, a.q, "2")
		r.backlogged("a", "b.x", "c") // it was last seen behind
		a.takes(readmit.Passed)
		c.takes(readmit.Returned)
		r.beside[c.q]++
		r.backlogged("b.x")
		r.delete(b.q)
		r.backlogged()
		r.queue(b.q, "unlimited", withCapacity(2), defers)
		r.backlogged()
	}},
	{"an overflow that stays empty for longer than a job's delay has lost the recorded jobs", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4))
		first := s.empties("a", "b")
		r.clock.Advance(20 * time.Second)
		last := s.setAside("c", "cancelled")
		r.cancels(queue.Cancelled, s.q, "cancelled")
		s.jobs = nil // the loss
		s.generation()
		r.clock.Advance(queue.OrphanAfter)
		s.givesUp(0)
		r.state(queue.Deferred, s.q, "a")
		r.clock.Advance(time.Microsecond)
		s.givesUp(3)
		s.givesUp(0)
		r.tallies(s.q, tally{appended: 4, setAside: 4, missing: 3, cancelled: 1, delivered: 4})
		r.backlogged()
		for _, id := range []string{"a", "b", "c", "cancelled"} {
			r.unknown(s.q, id)
			_, err := r.e.Cancel(r.ctx, s.q, id)
			r.refuses(err, queue.ErrUnknownJob)
		}
		for _, a := range append(first, last...) {
			r.withdrawsOne(ticketed(a, s.q))
		}
		other := job(s.q, "a")
		other.Payload = []byte("another")
		r.outcomes(r.offer(other, job(s.q, "b"), job(s.q, "cancelled")), queue.Accepted, queue.Accepted, queue.Accepted)
		r.tallies(s.q, tally{waiting: 3, appended: 7, setAside: 4, missing: 3, cancelled: 1, delivered: 4})
	}},
	{"given-up jobs are ahead of nobody", func(r *rig) {
		s := r.overflowOf("q", "10/s", withCapacity(2))
		s.full()
		s.asideJobs(costing(5, s.q, "a"), costing(7, s.q, "b"))
		r.drain(s.q)
		s.generation()
		r.clock.Advance(time.Hour)
		s.empty()
		s.full()
		r.checkDeferred(s.setAside("c")[0], 3, r.clock.Now().Add(200*time.Millisecond))
		if j := r.job(s.q, "c"); j.Position != 3 || instantOf(j.ETA.At) != r.clock.Now().Add(200*time.Millisecond) {
			r.Errorf("got %+v", j)
		}
	}},
	{"a given-up job that arrives after all is accepted once", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4))
		s.empties("a", "b")
		s.generation()
		r.clock.Advance(time.Hour)
		s.givesUp(2)
		r.offered(queue.Accepted, job(s.q, "b"))
		s.takes(readmit.Returned, readmit.Passed)
		r.beside[s.q]++
		r.tallies(s.q, tally{waiting: 2, appended: 6, setAside: 2, returned: 1, missing: 2, delivered: 4})
		r.sameIDs(r.drain(s.q), "b", "a")
	}},
	{"a job given up and deferred again may arrive as its old copy first", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4))
		s.empties("a", "b")
		s.generation()
		r.clock.Advance(time.Hour)
		s.empty()
		s.full()
		again := s.setAside("a", "c")[0]
		s.jobs[0], s.jobs[1] = s.jobs[1], s.jobs[0]
		s.jobs[0].Order, s.jobs[1].Order = s.jobs[1].Order, s.jobs[0].Order
		r.drain(s.q)
		r.deferredAgain(r.offer(job(s.q, "a"))[0], again)
		// The old b and the old a; then the new a.
		res := s.takes(readmit.Returned, readmit.Returned, readmit.Passed, readmit.NotYet)
		// b came back without a record; the record of the new a ended with the old copy.
		r.beside[s.q]++
		if res.Deferred != 1 {
			r.Errorf("%d deferred", res.Deferred)
		}
		r.drain(s.q)
		s.takes(readmit.Returned)
		r.tallies(s.q, tally{waiting: 1, appended: 11, setAside: 4, returned: 3, missing: 2, delivered: 10})
	}},
	{"newer records are not given up", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4))
		s.empties("a")
		s.generation()
		r.clock.Advance(time.Hour)
		s.setAside("b") // just now
		s.givesUp(1)
		r.tallies(s.q, tally{deferred: 1, appended: 4, setAside: 2, missing: 1, delivered: 4})
		r.clock.Advance(queue.OrphanAfter + time.Microsecond)
		s.givesUp(1)
		s.jobs = nil
		s.full("c")
		r.clock.Advance(time.Hour)
		r.state(queue.Deferred, s.q, "c")
		r.drain(s.q)
		s.takes(readmit.Returned)
		r.unknown(s.q, "b")
	}},
	{"a backlog keeps the queue, a cancelled deferral does not", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4))
		refused := func() { r.Helper(); r.refuses(r.e.Delete(r.ctx, s.q, queue.AnyRevision, false), queue.ErrNotEmpty) }
		s.empties("a")
		refused()
		r.cancels(queue.Cancelled, s.q, "a")
		r.readmit(queue.ReadmitRequest{Queue: s.q, Holder: "h", Behind: 1})
		refused()
		r.readmit(queue.ReadmitRequest{Queue: s.q, Holder: "h"})
		r.check(r.e.Delete(r.ctx, s.q, queue.AnyRevision, false))
	}},
	{"a forced delete removes the deferrals from all counts, and the successor starts anew", func(r *rig) {
		s, other := r.overflowOf("g.q", "unlimited", withCapacity(4)), r.overflowOf(
			"g.other", "unlimited", withCapacity(4),
		)
		other.full("a")
		s.empties("a", "b", "c")
		s.takes(readmit.Returned, readmit.Returned, readmit.NotYet)
		old := s.jobs
		r.delete(s.q)
		r.backlogged(other.q)
		if t, err := r.e.Totals(r.ctx); err != nil || t != (queue.Totals{Queues: 1, Waiting: 0, Deferred: 1}) {
			r.Errorf("totals %+v, %v", t, err)
		}
		_, err := r.e.Cancel(r.ctx, s.q, "c")
		r.refuses(err, queue.ErrUnknownQueue)
		r.offered(queue.UnknownQueue, job(s.q, "c"))
		s = r.overflowOf(s.q, "unlimited", withCapacity(4))
		r.tallies(s.q, tally{})
		r.unknown(s.q, "c")
		s.admits("x", 4) // no backlog
		s.setAside("c")
		r.drain(s.q)
		s.jobs[0].Order = 1 // the order starts anew, and so does the count of returned jobs
		s.takes(readmit.Returned)
		s.addUnknown("d")
		s.takes(readmit.Returned)
		r.beside[s.q]++
		s.last, s.jobs = s.last+1, old
		s.jobs[0].Order = s.last
		s.takes(readmit.Orphaned)
	}},
}

// announces announces a stray job, and checks that this makes a backlog.
func (s *fakeOverflow) announces() {
	s.Helper()
	s.check(s.e.Announce(s.ctx, s.q))
	if i := s.info(s.q); i.Deferred == 0 {
		s.Errorf("announced, and nothing is deferred: %+v", i)
	}
}

// announceBehind announces a number of jobs, seen behind at some instant, and checks the queue's count.
func (s *fakeOverflow) announceBehind(behind int64, asOf leaky.Instant, want int64) {
	s.Helper()
	req := s.request(0)
	req.Behind, req.Empty, req.AsOf = behind, behind == 0, asOf.Time()
	if asOf == 0 {
		req.AsOf = time.Time{}
	}
	if res := s.readmit(req); res.Behind != want {
		s.Errorf("%d behind as of %v: the engine counts %d, want %d", behind, asOf.Time(), res.Behind, want)
	}
	if i := s.info(s.q); i.Deferred != want {
		s.Errorf("%d deferred, want %d", i.Deferred, want)
	}
}

var announceRules = []rule{
	{"an announced job makes a backlog until the overflow is read again", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4))
		r.offered(queue.Accepted, job(s.q, "before"))
		s.announces()
		r.backlogged(s.q)
		if t, err := r.e.Totals(r.ctx); err != nil || t.Deferred != 0 { // none is recorded
			r.Errorf("totals %+v, %v", t, err)
		}
		s.addUnknown("stray")
		s.setAside("behind")
		if n := s.takes(readmit.Returned, readmit.Returned).Behind; n != 1 { // as far as the reader knew
			r.Errorf("%d behind", n)
		}
		r.beside[s.q] = 1
		r.backlogged(s.q)
		r.clock.Advance(time.Microsecond)
		s.announceBehind(0, r.clock.Now(), 0)
		r.backlogged()
		r.offered(queue.Accepted, job(s.q, "after"))
		r.tallies(s.q, tally{waiting: 4, appended: 4, setAside: 1, returned: 2})
	}},
	{"an earlier read, or one without a time, does not cancel the announcement", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4))
		start := r.clock.Now()
		r.clock.Advance(time.Second)
		s.announces()
		at := r.clock.Now()
		r.clock.Advance(time.Second)
		for range 2 {
			for _, asOf := range []leaky.Instant{0, start, at - 1, at} {
				s.announceBehind(0, asOf, 1)
			}
			s.announceBehind(3, at, 3) // a greater number is accepted
		}
		s.announceBehind(0, start, 1)
		s.announceBehind(0, at+1, 0)
		s.announceBehind(0, start, 0) // the overflow was read since
		s.announceBehind(2, start, 2)
		s.announceBehind(0, 0, 1)
		s.announceBehind(0, at+1, 0)
		s.announces()
		s.announceBehind(0, at+1, 1)
		s.announceBehind(0, r.clock.Now()+1, 0)
	}},
	{"without an announcement the time does not matter", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4))
		for _, asOf := range []leaky.Instant{0, 1, r.clock.Now() - 1, r.clock.Now(), r.clock.Now() + 1, 1 << 60} {
			s.announceBehind(7, asOf, 7)
			s.announceBehind(0, asOf, 0)
		}
	}},
	{"an announcement disturbs no holder of the way back, and needs none", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4))
		s.full("a", "b")
		r.drain(s.q)
		first := s.takes(readmit.Returned)
		s.announces()
		r.busy(fromHolder("another", s.request(0)), queue.ReadmitFor)
		r.clock.Advance(time.Second)
		second := s.takes(readmit.Returned)
		if second.Order <= first.Order || second.Behind != 1 {
			r.Errorf("%+v, then %+v", first, second)
		}
		s.announceBehind(0, r.clock.Now(), 0)
	}},
	{"an announcement does not lower a greater number", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4))
		s.announceBehind(5, 0, 5)
		s.announces()
		if i := r.info(s.q); i.Deferred != 5 {
			r.Errorf("%d deferred", i.Deferred)
		}
	}},
	{"nothing is announced for a missing queue, nor for its successor", func(r *rig) {
		for _, name := range []string{"nobody", "", "a b", "a.b.c", "q\x00"} {
			r.refuses(r.e.Announce(r.ctx, name), queue.ErrUnknownQueue)
		}
		s := r.overflowOf("q", "unlimited", withCapacity(4))
		s.announces()
		r.refuses(r.e.Delete(r.ctx, s.q, queue.AnyRevision, false), queue.ErrNotEmpty)
		r.delete(s.q)
		r.backlogged()
		s = r.overflowOf("q", "unlimited", withCapacity(4))
		s.announceBehind(1, 0, 1)
		s.announceBehind(0, 0, 0)
	}},
}
