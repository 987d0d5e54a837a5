package queuetest

import (
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
