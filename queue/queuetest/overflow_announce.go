package queuetest

import (
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

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
