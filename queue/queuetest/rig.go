package queuetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// rig is a test with an engine, its clock, and helpers that fail the test when a call returns an error.
type rig struct {
	*testing.T
	ctx     context.Context
	e       queue.Engine
	clock   *Clock
	numbers map[string]uint64 // the last request of each client and partition
	closed  bool              // the test has closed the engine
	quotes  int               // number of quotes
	litters int
	// beside counts, by queue, the jobs that returned without a record, less the records that ended because the job was
	// dealt with elsewhere.
	beside     map[string]int64
	former     map[string]bool   // names of deleted queues, whose dead jobs a new queue may inherit
	units      map[string]string // of rules that were put, by name
	spent      int               // number of jobs that spend made
	concurrent bool              // several goroutines may share the engine
}

func newRig(t *testing.T, open Open, begins time.Time) *rig {
	clock := NewClock()
	if !begins.IsZero() {
		clock.Set(instantOf(begins))
	}
	return &rig{
		T: t, ctx: t.Context(), e: open(t, clock.Now), clock: clock, numbers: map[string]uint64{},
		beside: map[string]int64{}, former: map[string]bool{},
	}
}

// spec returns a normalized spec. Its jobs are retried at once, so that tests need not wait.
func spec(name, rate string, change ...func(*queue.Spec)) queue.Spec {
	r, err := leaky.ParseRate(rate)
	if err != nil {
		panic(err)
	}
	s := queue.Spec{Name: name, Rate: r}
	for _, c := range change {
		c(&s)
	}
	s.Normalize()
	return s
}

func (r *rig) put(s queue.Spec) queue.PutResult {
	r.Helper()
	res, err := r.e.Put(r.ctx, s, queue.AnyRevision)
	if err != nil {
		r.Fatalf("put %s: %v", s.Name, err)
	}
	return res
}

// queue puts a queue and returns its name.
func (r *rig) queue(name, rate string, change ...func(*queue.Spec)) string {
	r.Helper()
	r.put(spec(name, rate, change...))
	return name
}

func job(queueName, id string) queue.Job {
	return queue.Job{Queue: queueName, ID: id, Payload: fmt.Appendf(nil, `{"job":%q}`, id)}
}

func jobs(queueName string, ids ...string) []queue.Job {
	list := make([]queue.Job, len(ids))
	for i, id := range ids {
		list[i] = job(queueName, id)
	}
	return list
}

// numbered returns n ids that sort in order.
func numbered(prefix string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s%05d", prefix, i+1)
	}
	return ids
}

func (r *rig) append(jobs ...queue.Job) []queue.Appended {
	r.Helper()
	a, err := r.e.Append(r.ctx, jobs)
	if err != nil {
		r.Fatalf("append: %v", err)
	}
	r.aboutThese(a, jobs)
	return a
}

// aboutThese checks that there is one answer for each job, in order.
func (r *rig) aboutThese(a []queue.Appended, jobs []queue.Job) {
	r.Helper()
	if len(a) != len(jobs) {
		r.Fatalf("%d answers to %d jobs", len(a), len(jobs))
	}
	for i := range a {
		if a[i].ID != jobs[i].ID {
			r.Fatalf("answer %d is about %q, not %q", i, a[i].ID, jobs[i].ID)
		}
	}
}

// accept appends jobs that must be accepted.
func (r *rig) accept(queueName string, ids ...string) []queue.Appended {
	r.Helper()
	return r.acceptJobs(jobs(queueName, ids...)...)
}

func (r *rig) acceptJobs(jobs ...queue.Job) []queue.Appended {
	r.Helper()
	a := r.append(jobs...)
	for i := range a {
		if a[i].Outcome != queue.Accepted || a[i].State != queue.Waiting || a[i].Err != nil {
			r.Fatalf(
				"append %s/%s: %v in state %v, %v; want accepted, waiting", jobs[i].Queue, a[i].ID, a[i].Outcome,
				a[i].State, a[i].Err,
			)
		}
	}
	return a
}

// outcome appends one job and checks its outcome.
func (r *rig) outcome(want queue.AppendOutcome, j queue.Job) queue.Appended {
	r.Helper()
	a := r.append(j)[0]
	if a.Outcome != want {
		r.Fatalf("append %s/%.40s at %v: %v, %v; want %v", j.Queue, j.ID, r.clock.Now().Time(), a.Outcome, a.Err, want)
	}
	return a
}

// partition returns the partition of a queue.
func (r *rig) partition(queueName string) int { return partition(r.T, r.e, queueName) }

func partition(t testing.TB, e queue.Engine, queueName string) int {
	if p, ok := e.(interface{ Partition(string) int }); ok {
		return p.Partition(queueName)
	}
	if n := e.Partitions(); n != 1 {
		t.Fatalf("an engine with %d partitions has no method Partition", n)
	}
	return 0
}

func (r *rig) info(queueName string) queue.Info {
	r.Helper()
	i, err := r.e.Get(r.ctx, queueName)
	if err != nil {
		r.Fatalf("get %s: %v", queueName, err)
	}
	return i
}

func (r *rig) job(queueName, id string) queue.JobInfo {
	r.Helper()
	i, err := r.e.Job(r.ctx, queueName, id)
	if err != nil {
		r.Fatalf("job %s/%s: %v", queueName, id, err)
	}
	if i.Queue != queueName || i.ID != id {
		r.Fatalf("job %s/%s: the answer is about %s/%s", queueName, id, i.Queue, i.ID)
	}
	return i
}

// state checks the state of a job.
func (r *rig) state(want queue.State, queueName, id string) {
	r.Helper()
	if i := r.job(queueName, id); i.State != want {
		r.Fatalf("job %s/%s is %v, want %v", queueName, id, i.State, want)
	}
}

// drain delivers all jobs of a queue and returns them in order of departure. It moves the clock as far as the answers
// say.
func (r *rig) drain(queueName string) []queue.Reservation {
	r.Helper()
	var out []queue.Reservation
	size := func() int64 {
		i := r.info(queueName)
		return i.Size()
	}
	left := size()
	for round := range 100_000 {
		res := r.reserveAs("client", queueName, queue.MaxReserve)
		if len(res.Jobs) > 0 {
			list := make([]queue.Settlement, len(res.Jobs))
			for i, v := range res.Jobs {
				list[i] = settlement(queue.Deliver, v)
			}
			for i, s := range r.settle(list...) {
				if s.Stale || s.State != queue.Delivered || s.Err != nil {
					r.Fatalf("deliver %s: %+v", res.Jobs[i].ID, s)
				}
			}
			out = append(out, res.Jobs...)
			left -= int64(len(res.Jobs))
			continue
		}
		if left <= 0 || round%8 == 0 { // other clients may end jobs too
			if left = size(); left == 0 {
				return out
			}
		}
		r.clock.Advance(max(res.Next, time.Millisecond))
	}
	r.Fatalf("%s is never empty: %+v", queueName, r.info(queueName))
	return nil
}

func (r *rig) check(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// crowd runs n workers concurrently and adds up their results.
func (r *rig) crowd(n int, work func(worker int) int) (sum int, each []int) {
	r.Helper()
	if !r.concurrent {
		r.Fatal("add this chapter to concurrent in suite.go, so that it runs under the race detector")
	}
	each = make([]int, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { each[i] = work(i) })
	}
	wg.Wait()
	for _, v := range each {
		sum += v
	}
	return sum, each
}
