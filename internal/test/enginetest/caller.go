// Package enginetest has the calls that tests of engines make most often.
package enginetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// Noon is the start of a Caller's clock.
const Noon = leaky.Instant(1_790_000_000_000_000)

// Caller calls an engine, and fails the test if a call fails. It has a clock for the engine, which the test moves.
type Caller struct {
	testing.TB
	Callee queue.Engine
	Number uint64 // of the last reserve

	mu sync.Mutex
	at leaky.Instant
}

// New returns a Caller at noon. The test sets its Callee.
func New(t testing.TB) *Caller { return &Caller{TB: t, at: Noon} }

// Now returns the time of the clock.
func (c *Caller) Now() leaky.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// Advance moves the clock forward.
func (c *Caller) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// MustPut puts a queue with a rate.
func (c *Caller) MustPut(name, rate string, change ...func(*queue.Spec)) {
	c.Helper()
	r, err := leaky.ParseRate(rate)
	if err != nil {
		c.Fatal(err)
	}
	s := queue.Spec{Name: name, Rate: r}
	for _, f := range change {
		f(&s)
	}
	if _, err := c.Callee.Put(context.Background(), s, queue.AnyRevision); err != nil {
		c.Fatal(err)
	}
}

// Job returns a job with a number in its ID and payload.
func Job(name string, n int) queue.Job {
	return queue.Job{Queue: name, ID: fmt.Sprintf("job-%06d", n), Payload: fmt.Appendf(nil, `{"n":%d}`, n)}
}

// Jobs returns n jobs, starting with a number.
func Jobs(name string, from, n int) []queue.Job {
	jobs := make([]queue.Job, n)
	for i := range jobs {
		jobs[i] = Job(name, from+i)
	}
	return jobs
}

// MustAppend appends jobs, all of which must be accepted.
func (c *Caller) MustAppend(jobs ...queue.Job) {
	c.Helper()
	answers, err := c.Callee.Append(context.Background(), jobs)
	if err != nil {
		c.Fatal(err)
	}
	for _, a := range answers {
		if a.Outcome != queue.Accepted {
			c.Fatalf("append %s: %v, %v", a.ID, a.Outcome, a.Err)
		}
	}
}

// AppendTo appends n jobs, starting with a number.
func (c *Caller) AppendTo(name string, from, n int) {
	c.Helper()
	c.MustAppend(Jobs(name, from, n)...)
}

// AppendInLane appends a job, whatever the outcome.
func (c *Caller) AppendInLane(name, lane string, n int) queue.Appended {
	c.Helper()
	j := Job(name, n)
	j.Lane = lane
	a, err := c.Callee.Append(context.Background(), []queue.Job{j})
	if err != nil {
		c.Fatal(err)
	}
	return a[0]
}

// MustReserve returns the jobs granted to the client "c" by its next request.
func (c *Caller) MustReserve(most int) []queue.Reservation {
	c.Helper()
	c.Number++
	r, err := c.Callee.Reserve(context.Background(), queue.ReserveRequest{
		Client: queue.Client{ID: "c"}, Number: c.Number, Max: most,
	})
	if err != nil {
		c.Fatal(err)
	}
	return r.Jobs
}

// Settlements returns settlements of jobs with a verdict. Verdicts other than deliver have the job wait a minute.
func Settlements(v queue.Verdict, list []queue.Reservation) []queue.Settlement {
	s := make([]queue.Settlement, len(list))
	for i, r := range list {
		s[i] = queue.Settlement{Lease: queue.Lease{Queue: r.Queue, ID: r.ID, Fence: r.Fence}, Verdict: v, Reason: "no"}
		if v != queue.Deliver {
			s[i].After = time.Minute
		}
	}
	return s
}

// MustSettle settles jobs with a verdict.
func (c *Caller) MustSettle(v queue.Verdict, list []queue.Reservation) []queue.Settled {
	c.Helper()
	out, err := c.Callee.Settle(context.Background(), Settlements(v, list))
	if err != nil {
		c.Fatal(err)
	}
	return out
}

// MustGet returns a queue with its statistics.
func (c *Caller) MustGet(name string) queue.Info {
	c.Helper()
	i, err := c.Callee.Get(context.Background(), name)
	if err != nil {
		c.Fatal(err)
	}
	return i
}

// State returns the state of a job, if the job is known.
func (c *Caller) State(name string, n int) queue.State {
	c.Helper()
	j, err := c.Callee.Job(context.Background(), name, Job(name, n).ID)
	if err != nil && !errors.Is(err, queue.ErrUnknownJob) {
		c.Fatal(err)
	}
	return j.State
}

// Standing returns everything that a failed call must leave unchanged.
func (c *Caller) Standing(name string) string {
	c.Helper()
	totals, err := c.Callee.Totals(context.Background())
	if err != nil {
		c.Fatal(err)
	}
	i := c.MustGet(name)
	i.Next, i.Outflow, i.Lost, i.Refused = time.Time{}, 0, 0, 0
	jobs := ""
	for n := range 12 {
		j, _ := c.Callee.Job(context.Background(), name, Job(name, n).ID)
		jobs += fmt.Sprintf("\n%d %v at %d, %+v", n, j.State, j.Position, j)
	}
	return fmt.Sprintf("%+v\n%+v%s", i, totals, jobs)
}
