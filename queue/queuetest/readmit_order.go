package queuetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/queue"
)

// busy sends a request that must find another holder at work.
func (r *rig) busy(req queue.ReadmitRequest, want time.Duration) {
	r.Helper()
	res, err := r.e.Readmit(r.ctx, req)
	if err != nil || res.Busy != want || len(res.Outcomes) != 0 {
		r.Fatalf(
			"readmit into %s as %s: busy for %v, %v, %v; want %v", req.Queue, req.Holder, res.Busy, res.Outcomes, err,
			want,
		)
	}
}

// fromHolder returns the request as another holder's.
func fromHolder(holder string, req queue.ReadmitRequest) queue.ReadmitRequest {
	req.Holder = holder
	return req
}

var readmitOrderRules = []rule{
	{"jobs readmitted before are passed over, in any portions", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(20))
		s.empties(numbered("j", 8)...)
		all := s.request(8)
		part := func(from, to int) queue.ReadmitRequest {
			req := all
			req.Jobs = slices.Clone(all.Jobs[from:to])
			req.Behind = int64(len(all.Jobs) - to)
			return req
		}
		order := func(res queue.Readmitted, want int) {
			r.Helper()
			if res.Order != all.Jobs[want].Order {
				r.Errorf("the order is %d, want %d", res.Order, all.Jobs[want].Order)
			}
		}
		order(r.checkReadmit(part(0, 3), repeat(readmit.Returned, 3)...), 2)
		order(r.checkReadmit(part(0, 3), repeat(readmit.Passed, 3)...), 2)
		order(r.checkReadmit(part(1, 5), readmit.Passed, readmit.Passed, readmit.Returned, readmit.Returned), 4)
		order(r.checkReadmit(part(0, 1), readmit.Passed), 4)
		r.sameIDs(r.drain(s.q), "j00001", "j00002", "j00003", "j00004", "j00005")
		order(r.checkReadmit(part(0, 6), append(repeat(readmit.Passed, 5), readmit.Returned)...), 5)
		order(r.checkReadmit(part(2, 4), readmit.Passed, readmit.Passed), 5)
		order(r.checkReadmit(all, append(repeat(readmit.Passed, 6), readmit.Returned, readmit.Returned)...), 7)
		r.sameIDs(r.drain(s.q), "j00006", "j00007", "j00008")
		order(r.checkReadmit(all, repeat(readmit.Passed, 8)...), 7)
		r.tallies(s.q, tally{appended: 28, setAside: 8, returned: 8, delivered: 28})
	}},
	{"jobs below the order are not examined", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(20), deferredFor(time.Minute, time.Minute))
		s.empties("a", "b", "c")
		req := s.request(2)
		s.takes(readmit.Returned, readmit.Returned)
		late, other, lost, broken, done := req.Jobs[0], req.Jobs[0], req.Jobs[0], req.Jobs[0], s.jobs[0]
		late.ID, late.At = "late", r.clock.Now().Add(-time.Hour).Time()
		other.Payload = []byte("other")
		lost.Ticket = "x"
		broken.ID = "a b"
		done.Done, done.Order = true, req.Jobs[1].Order
		for i, j := range []queue.Readmission{late, other, lost, broken, done} {
			req.Jobs = []queue.Readmission{j}
			if res := r.checkReadmit(req, readmit.Passed); res.Deferred != 1 {
				r.Errorf("number %d: %d deferred", i, res.Deferred)
			}
		}
		r.unknown(s.q, "late")
		r.state(queue.Deferred, s.q, "c")
		s.takes(readmit.Returned)
	}},
	{"one holder at a time, for five seconds after each of its calls", func(r *rig) {
		s := r.overflowOf("g.q", "unlimited", withCapacity(20))
		s.empties("a", "b", "c")
		other := r.overflowOf("g.other", "unlimited", withCapacity(20))
		r.checkReadmit(fromHolder("one", s.request(0)))
		r.busy(fromHolder("two", s.request(3)), queue.ReadmitFor)
		r.checkReadmit(fromHolder("two", other.request(0))) // another queue has its own holder
		r.clock.Advance(2 * time.Second)
		r.busy(fromHolder("two", s.request(3)), 3*time.Second)
		r.busy(fromHolder("ONE", s.request(3)), 3*time.Second)
		r.checkReadmit(fromHolder("one", s.request(1)), readmit.Returned)
		r.clock.Advance(queue.ReadmitFor - time.Microsecond)
		r.busy(fromHolder("two", s.request(3)), time.Microsecond)
		r.clock.Advance(time.Microsecond)
		r.checkReadmit(fromHolder("two", s.request(2)), readmit.Passed, readmit.Returned)
		r.busy(fromHolder("one", s.request(3)), queue.ReadmitFor)
		r.clock.Advance(time.Minute)
		r.checkReadmit(fromHolder("two", s.request(3)), readmit.Passed, readmit.Passed, readmit.Returned)
		r.sameIDs(r.drain(s.q), "a", "b", "c")
	}},
	{"a paused holder comes back late, and no job enters twice", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(20))
		s.empties("a", "b", "c", "d")
		slow := fromHolder("slow", s.request(3))
		r.checkReadmit(fromHolder("slow", s.request(1)), readmit.Returned)
		r.clock.Advance(30 * time.Second)
		r.checkReadmit(fromHolder("quick", s.request(4)), readmit.Passed, readmit.Returned, readmit.Returned,
			readmit.Returned)
		r.sameIDs(r.drain(s.q), "a", "b", "c", "d")
		r.busy(slow, queue.ReadmitFor)
		r.clock.Advance(queue.ReadmitFor)
		r.checkReadmit(slow, repeat(readmit.Passed, 3)...)
		r.busy(fromHolder("quick", s.request(4)), queue.ReadmitFor)
		// One is behind, as the slow holder reported.
		r.tallies(s.q, tally{deferred: 1, appended: 24, setAside: 4, returned: 4, delivered: 24})
		r.readmit(fromHolder("slow", queue.ReadmitRequest{Queue: s.q, Overflow: "shelf", Empty: true}))
		r.tallies(s.q, tally{appended: 24, setAside: 4, returned: 4, delivered: 24})
	}},
	{"a busy answer changes nothing", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4))
		s.empties("a")
		r.checkReadmit(fromHolder("one", s.request(0)))
		r.clock.Advance(time.Second)
		req := fromHolder("two", s.request(1))
		req.Behind, req.Overflow, req.Leave = 77, "another", true
		r.busy(req, 4*time.Second)
		req.Jobs[0].Done = true
		r.busy(req, 4*time.Second)
		r.clock.Advance(40 * time.Second)
		r.checkReadmit(fromHolder("one", s.request(0)))
		empty := fromHolder("two", s.request(0))
		empty.Empty, empty.Behind = true, 0
		r.busy(empty, queue.ReadmitFor)
		r.state(queue.Deferred, s.q, "a")
		r.tallies(s.q, tally{deferred: 1, appended: 4, setAside: 1, delivered: 4})
		r.checkReadmit(fromHolder("one", s.request(1)), readmit.Returned)
	}},
	{"a holder that leaves lets the next one in at once", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(20))
		s.empties("a", "b", "c")
		leaves := func(req queue.ReadmitRequest) queue.ReadmitRequest { req.Leave = true; return req }
		r.checkReadmit(leaves(fromHolder("one", s.request(1))), readmit.Returned)
		r.checkReadmit(fromHolder("two", s.request(2)), readmit.Passed, readmit.Returned)
		r.busy(leaves(fromHolder("one", s.request(0))), queue.ReadmitFor)
		r.checkReadmit(leaves(fromHolder("two", s.request(0))))
		r.checkReadmit(leaves(fromHolder("one", s.request(0)))) // the second time changes nothing
		r.checkReadmit(fromHolder("three", s.request(3)), readmit.Passed, readmit.Passed, readmit.Returned)
	}},
	{"another overflow starts anew", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(20))
		s.empties("a", "b", "c")
		old := s.request(2)
		s.takes(readmit.Returned, readmit.Returned)
		r.deliver(r.grant(s.q, 1, "a")...)

		// Jobs copied over from the old overflow are known. The order of the new one starts anew.
		moved := s.request(0)
		moved.Overflow = "another"
		if res := r.checkReadmit(moved); res.Order != 0 {
			r.Errorf("the order is %d", res.Order)
		}
		for i, id := range []string{"b", "a", "c", "d"} {
			at := s.jobs[0]
			at.Job, at.Order, at.Ticket = job(s.q, id), int64(i+1), ""
			moved.Jobs = append(moved.Jobs, at)
		}
		if res := r.checkReadmit(moved, readmit.Passed, readmit.Passed, readmit.Returned, readmit.Returned); res.Order != 4 ||
			res.Deferred != 0 {
			r.Errorf("%+v", res)
		}
		r.beside[s.q]++ // d
		r.checkReadmit(moved, repeat(readmit.Passed, 4)...)
		if res := r.checkReadmit(old, readmit.Passed, readmit.Passed); res.Order != old.Jobs[1].Order { // and back
			r.Errorf("the order is %d", res.Order)
		}
		for _, name := range []string{
			"", "\x00\xff é", "0123456789012345678901234567890123456789012345678901234567890123",
		} {
			moved.Overflow = name
			if res := r.checkReadmit(moved, repeat(readmit.Passed, 4)...); res.Order != 4 {
				r.Errorf("%q: the order is %d", name, res.Order)
			}
		}
		r.sameIDs(r.drain(s.q), "b", "c", "d")
	}},
	{"an invalid request is refused and does nothing", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(600))
		s.empties("a", "b")
		many := make([]queue.Readmission, queue.MaxReadmit+1)
		for i, id := range numbered("m", len(many)) {
			many[i] = queue.Readmission{Job: job(s.q, id), Order: int64(i + 1), At: r.clock.Now().Time()}
		}
		for what, change := range map[string]func(*queue.ReadmitRequest){
			"no holder":                func(q *queue.ReadmitRequest) { q.Holder = "" },
			"holder blank":             func(q *queue.ReadmitRequest) { q.Holder = "a b" },
			"holder long":              func(q *queue.ReadmitRequest) { q.Holder = fmt.Sprintf("%065d", 0) },
			"overflow long":            func(q *queue.ReadmitRequest) { q.Overflow = fmt.Sprintf("%065d", 0) },
			"too many":                 func(q *queue.ReadmitRequest) { q.Jobs = many },
			"order 0":                  func(q *queue.ReadmitRequest) { q.Jobs[0].Order = 0 },
			"order -1":                 func(q *queue.ReadmitRequest) { q.Jobs[0].Order = -1 },
			"the same order":           func(q *queue.ReadmitRequest) { q.Jobs[1].Order = q.Jobs[0].Order },
			"orders backwards":         func(q *queue.ReadmitRequest) { slices.Reverse(q.Jobs) },
			"behind -1":                func(q *queue.ReadmitRequest) { q.Behind = -1 },
			"empty, with jobs":         func(q *queue.ReadmitRequest) { q.Empty = true },
			"empty, with others on it": func(q *queue.ReadmitRequest) { q.Jobs, q.Empty, q.Behind = nil, true, 1 },
		} {
			req := s.request(2)
			change(&req)
			if res, err := r.e.Readmit(r.ctx, req); err == nil {
				r.Errorf("%s: %+v", what, res)
			}
		}
		for _, name := range []string{"nobody", "", "a b", "a.b.c", "q\x00"} {
			req := s.request(2)
			req.Queue = name
			_, err := r.e.Readmit(r.ctx, req)
			r.refuses(err, queue.ErrUnknownQueue)
		}
		r.tallies(s.q, tally{deferred: 2, appended: 600, setAside: 2, delivered: 600})
		r.checkReadmit(fromHolder("two", s.request(2)), readmit.Returned, readmit.Returned) // nobody holds the way back
	}},
	{"many holders with the same jobs readmit each job once, in order", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(400))
		list := numbered("j", 150)
		s.empties(list...)
		all := s.request(len(list))
		returned, _ := r.crowd(8, func(worker int) (n int) {
			for i := 0; i < len(list); {
				req := fromHolder(fmt.Sprint("holder", worker), all)
				to := min(i+10+worker, len(list))
				req.Jobs, req.Behind, req.Leave = all.Jobs[max(0, i-worker):to], int64(len(list)-to), true
				res, err := r.e.Readmit(r.ctx, req)
				if err != nil {
					r.Errorf("readmit: %v", err)
					return n
				}
				if res.Busy > 0 { // and yet every holder leaves at once
					r.Errorf("busy for %v", res.Busy)
					return n
				}
				for _, o := range res.Outcomes {
					if o == readmit.Returned {
						n++
					} else if o != readmit.Passed {
						r.Errorf("%v", o)
					}
				}
				i = to
			}
			return n
		})
		if i := r.info(s.q); returned != len(list) || i.Returned != int64(len(list)) || i.Waiting != i.Returned {
			r.Errorf("%d came back, %d counted, %d wait, of %d", returned, i.Returned, i.Waiting, len(list))
		}
		r.sameIDs(r.drain(s.q), list...)
	}},
}
