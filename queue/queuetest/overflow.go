package queuetest

import (
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// defers lets a queue's jobs wait on the overflow.
func defers(s *queue.Spec) { s.Overflow = queue.Defer }

// lowWater sets the part of the capacity up to which jobs come back.
func lowWater(part float64) func(*queue.Spec) {
	return func(s *queue.Spec) { s.Deferred.LowWater = part }
}

// deferredFor sets how long a job may be deferred, and how long ended jobs are remembered.
func deferredFor(most, remembered time.Duration) func(*queue.Spec) {
	return func(s *queue.Spec) {
		s.Deferred.MaxAge, s.Retention.For = unit.Duration(most), unit.Duration(remembered)
	}
}

func (r *rig) offer(jobs ...queue.Job) []queue.Appended {
	r.Helper()
	a, err := r.e.Offer(r.ctx, jobs)
	if err != nil {
		r.Fatalf("offer: %v", err)
	}
	r.aboutThese(a, jobs)
	return a
}

// offered offers one job and checks its outcome.
func (r *rig) offered(want queue.AppendOutcome, j queue.Job) queue.Appended {
	r.Helper()
	a := r.offer(j)[0]
	if a.Outcome != want {
		r.Fatalf("offer %s/%.40s at %v: %v, %v; want %v", j.Queue, j.ID, r.clock.Now().Time(), a.Outcome, a.Err, want)
	}
	return a
}

// outcomes compares the outcomes of answers.
func (r *rig) outcomes(got []queue.Appended, want ...queue.AppendOutcome) {
	r.Helper()
	have := make([]queue.AppendOutcome, len(got))
	for i, a := range got {
		have[i] = a.Outcome
	}
	if !slices.Equal(have, want) {
		r.Fatalf("got %v\nwant %v", have, want)
	}
}

func (r *rig) readmit(req queue.ReadmitRequest) queue.Readmitted {
	r.Helper()
	res, err := r.e.Readmit(r.ctx, req)
	if err != nil {
		r.Fatalf("readmit into %s: %v", req.Queue, err)
	}
	if res.Busy != 0 {
		r.Fatalf("readmit into %s as %s: busy for %v", req.Queue, req.Holder, res.Busy)
	}
	if len(res.Outcomes) != len(req.Jobs) || !res.Now.Equal(r.clock.Now().Time()) {
		r.Fatalf(
			"readmit into %s: %d outcomes of %d jobs at %v, it is %v", req.Queue, len(res.Outcomes), len(req.Jobs),
			res.Now, r.clock.Now().Time(),
		)
	}
	return res
}

// fakeOverflow is the overflow of one queue, as a test keeps it: the jobs set aside, in their order.
type fakeOverflow struct {
	*rig
	q      string
	holder string
	jobs   []queue.Readmission // what remains on it
	last   int64               // the latest Order
	filled int                 // the number of calls of full
}

// Orders start high, like those of a stream with a billion earlier messages.
const firstOrder = 1 << 40

func (r *rig) overflowOf(queueName, rate string, change ...func(*queue.Spec)) *fakeOverflow {
	r.Helper()
	return &fakeOverflow{
		rig: r, q: r.queue(queueName, rate, append([]func(*queue.Spec){defers}, change...)...), holder: "holder",
		last: firstOrder,
	}
}

// store puts a job on the overflow with the answer to its offer.
func (s *fakeOverflow) store(j queue.Job, a queue.Appended) {
	s.last += 7
	s.jobs = append(s.jobs, queue.Readmission{Job: j, Order: s.last, Ticket: a.Ticket, At: a.At})
}

// addUnknown puts jobs on the overflow that the engine does not know.
func (s *fakeOverflow) addUnknown(ids ...string) {
	for _, id := range ids {
		s.store(job(s.q, id), queue.Appended{At: s.clock.Now().Time()})
	}
}

// setAside offers jobs that must be set aside, and stores them.
func (s *fakeOverflow) setAside(ids ...string) []queue.Appended {
	s.Helper()
	return s.asideJobs(jobs(s.q, ids...)...)
}

func (s *fakeOverflow) asideJobs(list ...queue.Job) []queue.Appended {
	s.Helper()
	a := s.offer(list...)
	for i := range a {
		if a[i].Outcome != queue.SetAside || a[i].State != queue.Deferred || a[i].Ticket == "" ||
			!a[i].At.Equal(s.clock.Now().Time()) || a[i].Err != nil {
			s.Fatalf("offer %s/%s: %+v; want it set aside now", s.q, list[i].ID, a[i])
		}
		s.store(list[i], a[i])
	}
	return a
}

// full fills the queue, which must be empty, and sets further jobs aside.
func (s *fakeOverflow) full(aside ...string) []queue.Appended {
	s.Helper()
	s.accept(s.q, numbered("full"+strings.Repeat("+", s.filled), int(s.info(s.q).Spec.Capacity))...)
	s.filled++
	return s.setAside(aside...)
}

// empties is full, followed by emptying the queue, so that only the backlog remains.
func (s *fakeOverflow) empties(aside ...string) []queue.Appended {
	s.Helper()
	a := s.full(aside...)
	s.drain(s.q)
	return a
}

// request returns a request with the first jobs of the overflow.
func (s *fakeOverflow) request(count int) queue.ReadmitRequest {
	return queue.ReadmitRequest{
		Queue: s.q, Holder: s.holder, Overflow: "shelf", Jobs: slices.Clone(s.jobs[:count]),
		Behind: int64(len(s.jobs) - count),
	}
}

// takes readmits as many jobs as there are wanted outcomes, and removes those with a final outcome.
func (s *fakeOverflow) takes(want ...readmit.Outcome) queue.Readmitted {
	s.Helper()
	req := s.request(len(want))
	res := s.checkReadmit(req, want...)
	for i, o := range want {
		if o.Final() {
			s.jobs = s.jobs[1:]
			if res.Order < req.Jobs[i].Order {
				s.Fatalf("%s is %v, yet the order is %d, below its %d", req.Jobs[i].ID, o, res.Order, req.Jobs[i].Order)
			}
		} else if res.Order >= req.Jobs[i].Order {
			s.Fatalf("%s is %v, yet the order is %d, beyond its %d", req.Jobs[i].ID, o, res.Order, req.Jobs[i].Order)
		}
	}
	return res
}

// checkReadmit sends a request and checks the outcomes.
func (r *rig) checkReadmit(req queue.ReadmitRequest, want ...readmit.Outcome) queue.Readmitted {
	r.Helper()
	res := r.readmit(req)
	if !slices.Equal(res.Outcomes, want) {
		r.Fatalf("readmit into %s: %v, want %v", req.Queue, res.Outcomes, want)
	}
	return res
}

// readmitState is the answer to a Readmit without its outcomes, time and order.
type readmitState struct{ room, batch, deferred, missing int64 }

func (r *rig) found(res queue.Readmitted, want readmitState) {
	r.Helper()
	if got := (readmitState{res.Room, res.Batch, res.Deferred, res.Missing}); got != want {
		r.Errorf("readmit: %+v, want %+v", got, want)
	}
}

// tally has every count of a queue that involves the overflow.
type tally struct {
	waiting, scheduled, leased, held, deferred, dead                                                   int64
	appended, setAside, returned, missing, cancelled, timedOut, delivered, died, refused, retried, ran int64
}

func (r *rig) tallies(queueName string, want tally) {
	r.Helper()
	i := r.info(queueName)
	got := tally{
		waiting: i.Waiting, scheduled: i.Scheduled, leased: i.Leased, held: i.Held, deferred: i.Deferred, dead: i.Dead,
		appended: i.Appended, setAside: i.SetAside, returned: i.Returned, missing: i.Missing, cancelled: i.Cancelled,
		timedOut:  i.TimedOut,
		delivered: i.Delivered, died: i.Died, refused: i.Refused, retried: i.Retried, ran: i.Expired,
	}
	if got != want {
		r.Errorf("%s counts\n got %+v\nwant %+v", queueName, got, want)
	}
}

// unknown checks that there is no such job.
func (r *rig) unknown(queueName, id string) {
	r.Helper()
	i, err := r.e.Job(r.ctx, queueName, id)
	if err == nil {
		r.Errorf("job %s/%s is %v, and should be forgotten", queueName, id, i.State)
		return
	}
	r.refuses(err, queue.ErrUnknownJob)
}
