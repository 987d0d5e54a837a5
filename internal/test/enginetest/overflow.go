package enginetest

import (
	"context"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/queue"
)

// Deferring puts a queue with a capacity that defers jobs without room.
func Deferring(capacity int64) func(*queue.Spec) {
	return func(s *queue.Spec) { s.Capacity, s.Overflow = capacity, queue.Defer }
}

// MustOffer offers n jobs, starting with a number, all of which must be set aside.
func (c *Caller) MustOffer(name string, from, n int) []queue.Appended {
	c.Helper()
	jobs := Jobs(name, from, n)
	answers, err := c.Callee.Offer(context.Background(), jobs)
	if err != nil {
		c.Fatal(err)
	}
	for i, a := range answers {
		if a.Outcome != queue.SetAside || a.ID != jobs[i].ID || a.State != queue.Deferred || a.Ticket == "" {
			c.Fatalf("offer %s: %+v", a.ID, a)
		}
	}
	return answers
}

// Stored returns what an overflow stores of a job that was set aside.
func Stored(name string, n int, order int64, a queue.Appended) queue.Readmission {
	return queue.Readmission{Job: Job(name, n), Order: order, Ticket: a.Ticket, At: a.At}
}

// AllStored returns what an overflow stores of several jobs, starting with an order.
func AllStored(name string, from int, order int64, answers []queue.Appended) []queue.Readmission {
	list := make([]queue.Readmission, len(answers))
	for i, a := range answers {
		list[i] = Stored(name, from+i, order+int64(i), a)
	}
	return list
}

// MustReadmit makes a request as the holder "h" of the overflow "nats".
func (c *Caller) MustReadmit(r queue.ReadmitRequest) queue.Readmitted {
	c.Helper()
	r.Holder, r.Overflow = "h", "nats"
	m, err := c.Callee.Readmit(context.Background(), r)
	if err != nil {
		c.Fatal(err)
	}
	return m
}

// ReadmitJobs brings jobs back.
func (c *Caller) ReadmitJobs(name string, jobs ...queue.Readmission) queue.Readmitted {
	c.Helper()
	return c.MustReadmit(queue.ReadmitRequest{Queue: name, Jobs: jobs})
}

// CheckOutcomes checks the outcomes of the jobs of a request.
func (c *Caller) CheckOutcomes(m queue.Readmitted, want ...readmit.Outcome) {
	c.Helper()
	if !slices.Equal(m.Outcomes, want) {
		c.Fatalf("%v, want %v", m.Outcomes, want)
	}
}

// OrphanedBacklog makes a queue q with a backlog of the jobs 1 and 2, which are recorded in the older generation but
// not on the overflow, so that they can be given up now.
func (c *Caller) OrphanedBacklog() (aside []queue.Appended) {
	c.Helper()
	c.MustPut("q", "unlimited", Deferring(2))
	c.AppendTo("q", 90, 2)
	aside = c.MustOffer("q", 1, 2)
	c.MustSettle(queue.Deliver, c.MustReserve(2))
	if m := c.MustReadmit(queue.ReadmitRequest{Queue: "q", Empty: true}); m.Missing != 0 {
		c.Fatalf("%+v", m)
	}
	c.Advance(queue.OrphanAfter + time.Microsecond)
	return aside
}

// CheckBalance checks that each job that queue q set aside is in exactly one state.
func (c *Caller) CheckBalance(missing, cancelled, deferred int64) {
	c.Helper()
	i := c.MustGet("q")
	if i.Missing != missing || i.Cancelled != cancelled || i.Deferred != deferred ||
		i.SetAside != i.Returned+missing+cancelled+deferred {
		c.Errorf("%+v", i)
	}
}
