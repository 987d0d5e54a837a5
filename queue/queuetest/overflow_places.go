package queuetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/queue"
)

// admits appends jobs that may not wait until one is refused, and checks how many were accepted.
func (s *fakeOverflow) admits(prefix string, want int64) {
	s.Helper()
	for n := int64(0); ; n++ {
		a := s.append(job(s.q, fmt.Sprint(prefix, n)))[0]
		if a.Outcome == queue.Full {
			if n != want {
				s.Errorf("%s: %d accepted, want %d", s.q, n, want)
			}
			return
		}
		if a.Outcome != queue.Accepted {
			s.Fatalf("append %s: %v, %v", a.ID, a.Outcome, a.Err)
		}
	}
}

// fills readmits jobs until there is no room, and returns how many were accepted.
func (s *fakeOverflow) fills() (n int64) {
	s.Helper()
	req := s.request(min(len(s.jobs), queue.MaxReadmit))
	for _, o := range s.readmit(req).Outcomes {
		if o == readmit.Returned {
			n++
		} else if o != readmit.NotYet {
			s.Fatalf("%s: %v", req.Jobs[n].ID, o)
		}
	}
	s.jobs = s.jobs[n:]
	return n
}

var placesRules = []rule{
	{
		"with a backlog the places are shared between returning jobs and jobs that may not wait",
		func(r *rig) {
			for i, tt := range []struct {
				capacity        int64
				lowWater        float64
				mark, allowance int64
				after           int64 // how many return once the others have their places
			}{
				{1, 0.5, 1, 1, 0},
				{2, 0.5, 1, 1, 1},
				{3, 0.5, 2, 1, 2},
				{3, 0.1, 1, 2, 1},
				{10, 0.5, 5, 5, 5},
				{10, 0.01, 1, 9, 1},
				{10, 0.99, 9, 1, 9},
				{10, 0.31, 4, 6, 4},
				{100, 0.29, 29, 71, 29},
			} {
				what := fmt.Sprintf("capacity %d, low water %v", tt.capacity, tt.lowWater)
				s := r.overflowOf(fmt.Sprint("q", i), "unlimited", withCapacity(tt.capacity), lowWater(tt.lowWater))
				s.empties(numbered("j", 300)...)

				// Returning jobs that come first leave the others their places.
				if n := s.fills(); n != tt.mark {
					r.Errorf("%s: %d came back, want %d", what, n, tt.mark)
				}
				s.admits("x", tt.capacity-tt.mark)
				if n := s.fills(); n != 0 {
					r.Errorf("%s: full, %d came back", what, n)
				}
				r.drain(s.q)

				// The same the other way round.
				s.admits("y", tt.allowance)
				if res := r.readmit(s.request(0)); res.Room != tt.after {
					r.Errorf("%s: room for %d, want %d", what, res.Room, tt.after)
				}
				if n := s.fills(); n != tt.after {
					r.Errorf("%s: beside the others %d came back, want %d", what, n, tt.after)
				}
				r.drain(s.q)
			}
		},
	},
	{"while both kinds come, neither starves", func(r *rig) {
		s := r.overflowOf("q", "10/s", withCapacity(4))
		s.full(numbered("j", 100)...)
		var back, others []string
		for i := range 30 {
			for _, v := range r.reserve(s.q, 1) {
				if v.ID[0] == 'x' {
					others = append(others, v.ID)
				} else if v.ID[0] == 'j' {
					back = append(back, v.ID)
				}
				r.deliver(v)
			}
			s.fills()
			r.append(job(s.q, fmt.Sprintf("x%05d", i)))
			r.clock.Advance(100 * time.Millisecond)
		}
		if len(back) < 10 || len(others) < 10 || !slices.IsSorted(back) || !slices.IsSorted(others) {
			r.Errorf("left: %v\nand %v", back, others)
		}
	}},
	{"places taken before the backlog count for the jobs that may not wait", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4)) // two and two
		s.full("a", "b", "c")
		step := func(outcome queue.AppendOutcome, id string) { r.Helper(); r.outcome(outcome, job(s.q, id)) }
		for _, id := range numbered("full", 4)[:2] {
			step(queue.Full, "x1")
			r.deliver(r.grant(s.q, 1, id)...)
		}
		step(queue.Full, "x1") // two are left, and these are the two
		s.takes(readmit.Returned, readmit.Returned, readmit.NotYet)
		r.deliver(r.grant(s.q, 1, "full00003")...)
		step(queue.Accepted, "x1")
		step(queue.Full, "x2")
		r.deliver(r.grant(s.q, 1, "full00004")...)
		step(queue.Accepted, "x2")
		s.takes(readmit.NotYet)
		r.deliver(r.grant(s.q, 1, "a")...)
		step(queue.Full, "x3") // its place is for c
		s.takes(readmit.Returned)
		step(queue.Full, "x3")
		r.sameIDs(r.drain(s.q), "b", "x1", "x2", "c")
		r.tallies(s.q, tally{appended: 9, setAside: 3, returned: 3, delivered: 9, refused: 6})
	}},
	{"scheduled and leased jobs keep their places, and whether they returned", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4), leased(10*time.Second, 2))
		s.empties(numbered("j", 6)...)
		s.takes(readmit.Returned, readmit.Returned, readmit.NotYet)
		v := r.grant(s.q, 2, "j00001", "j00002")
		s.takes(readmit.NotYet)
		r.release(v[0])
		s.takes(readmit.NotYet)
		r.fail(time.Hour, v[1])
		s.takes(readmit.NotYet)
		s.admits("x", 2)
	}},
	{"every way out frees the place of a returned job", func(r *rig) {
		one := func(queueName string) queue.Reservation { r.Helper(); return r.grant(queueName, 1, "j00001")[0] }
		for i, tt := range []struct {
			what string
			out  func(queueName string)
		}{
			{"delivered", func(q string) { r.deliver(one(q)) }},
			{"buried", func(q string) { r.settled(queue.Dead, settlement(queue.Bury, one(q))) }},
			{"failed for the last time", func(q string) {
				r.fail(0, one(q))
				r.settled(queue.Dead, settlement(queue.Fail, one(q)))
			}},
			{"its lease ran out for the last time", func(q string) {
				r.fail(0, one(q))
				one(q)
				r.clock.Advance(10 * time.Second)
				r.check(r.e.Pause(r.ctx, q, queue.Pause{}))
				r.grant(q, 1)
			}},
			{"cancelled while it waited", func(q string) { r.cancels(queue.Cancelled, q, "j00001") }},
			{"cancelled while it was scheduled", func(q string) {
				r.fail(time.Hour, one(q))
				r.cancels(queue.Cancelled, q, "j00001")
			}},
			{"expired", func(q string) {
				r.clock.Advance(30 * time.Second)
				r.grant(q, 1, "j00002")
			}},
		} {
			s := r.overflowOf(
				fmt.Sprint("q", i), "unlimited", withCapacity(5), leased(10*time.Second, 2), lowWater(0.4),
			)
			list := jobs(s.q, numbered("j", 5)...)
			list[0].ExpiresAt = r.clock.Now().Add(29 * time.Second).Time()
			s.full()
			s.asideJobs(list...)
			r.drain(s.q)
			s.takes(readmit.Returned, readmit.Returned, readmit.NotYet)
			tt.out(s.q)
			if res := r.readmit(s.request(0)); res.Room != 1 {
				r.Errorf("%s: room for %d, want 1", tt.what, res.Room)
			}
			s.takes(readmit.Returned, readmit.NotYet)
			r.delete(s.q)
		}
	}},
	{"the capacity or the low-water mark changes during a backlog", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(10))
		s.empties(numbered("j", 100)...)
		becomes := func(capacity int64, part float64, room int64) {
			r.Helper()
			r.queue(s.q, "unlimited", defers, withCapacity(capacity), lowWater(part))
			if res := r.readmit(s.request(0)); res.Room != room {
				r.Errorf("capacity %d, low water %v: room for %d, want %d", capacity, part, res.Room, room)
			}
			if n := s.fills(); n != room {
				r.Errorf("capacity %d, low water %v: %d came back, want %d", capacity, part, n, room)
			}
		}
		if n := s.fills(); n != 5 {
			r.Errorf("%d came back", n)
		}
		becomes(4, 0.5, 0)
		becomes(10, 0.5, 0)
		becomes(20, 0.5, 5)  // ten are back
		becomes(20, 0.25, 0) // five of them too many
		s.admits("x", 10)
		becomes(40, 0.25, 0)
		s.admits("y", 20)
		becomes(40, 0.5, 0) // full
		r.drain(s.q)
		becomes(1, 0.5, 1)
		becomes(2, 0.5, 0)
		becomes(3, 0.5, 1)
		r.drain(s.q)
		if i := r.info(s.q); i.Returned != 12 || i.Deferred != 88 {
			r.Errorf("%d returned, %d deferred", i.Returned, i.Deferred)
		}
	}},
	{"a queue without a backlog fills up with any jobs", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4))
		s.empties("a")
		s.takes(readmit.Returned)
		r.offered(queue.Accepted, job(s.q, "b"))
		s.admits("x", 2)
		s.setAside("c")
		r.deliver(r.grant(s.q, 2, "a", "b")...)
		s.takes(readmit.Returned)
		r.sameIDs(r.drain(s.q), "x0", "x1", "c")
	}},
}
