package queuetest

import (
	"context"
	"fmt"
	"slices"
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

func (r *rig) request(client, queueName string, most int) queue.ReserveRequest {
	p := r.partition(queueName)
	key := fmt.Sprint(client, " ", p)
	r.numbers[key]++
	return queue.ReserveRequest{
		Partition: p, Number: r.numbers[key], Max: most,
		Client: queue.Client{ID: client, Name: client + "@bench", Version: "1"},
	}
}

func (r *rig) do(req queue.ReserveRequest) queue.Reserved {
	r.Helper()
	res, err := r.e.Reserve(r.ctx, req)
	if err != nil {
		r.Fatalf("reserve: %v", err)
	}
	if len(res.Jobs) > req.Max {
		r.Fatalf("reserve: %d jobs granted, at most %d asked for", len(res.Jobs), req.Max)
	}
	for _, v := range res.Jobs {
		if v.Fence == "" || v.In > queue.Horizon {
			r.Fatalf("reserve: %s/%s has the fence %q and departs in %v", v.Queue, v.ID, v.Fence, v.In)
		}
	}
	return res
}

// reserveAs reserves as the named client, in the partition of the queue.
func (r *rig) reserveAs(client, queueName string, most int) queue.Reserved {
	r.Helper()
	return r.do(r.request(client, queueName, most))
}

// reserve reserves as the only client.
func (r *rig) reserve(queueName string, most int) []queue.Reservation {
	r.Helper()
	return r.reserveAs("client", queueName, most).Jobs
}

// grant reserves jobs and checks their ids and order.
func (r *rig) grant(queueName string, most int, want ...string) []queue.Reservation {
	r.Helper()
	got := r.reserve(queueName, most)
	r.sameIDs(got, want...)
	return got
}

func (r *rig) sameIDs(got []queue.Reservation, want ...string) {
	r.Helper()
	if have := ids(got); !slices.Equal(have, want) {
		r.Fatalf("granted %v, want %v", have, want)
	}
}

func ids(list []queue.Reservation) []string {
	have := make([]string, len(list))
	for i := range list {
		have[i] = list[i].ID
	}
	return have
}

// departure returns when a job leaves, provided the clock has not moved since the grant.
func (r *rig) departure(v queue.Reservation) leaky.Instant { return r.clock.Now().Add(v.In) }

func lease(v queue.Reservation) queue.Lease {
	return queue.Lease{Queue: v.Queue, ID: v.ID, Fence: v.Fence}
}

func settlement(verdict queue.Verdict, v queue.Reservation) queue.Settlement {
	return queue.Settlement{Lease: lease(v), Verdict: verdict}
}

func (r *rig) settle(list ...queue.Settlement) []queue.Settled {
	r.Helper()
	out, err := r.e.Settle(r.ctx, list)
	if err != nil {
		r.Fatalf("settle: %v", err)
	}
	if len(out) != len(list) {
		r.Fatalf("settle: %d answers to %d settlements", len(out), len(list))
	}
	return out
}

// settled settles and checks the resulting state.
func (r *rig) settled(want queue.State, s queue.Settlement) {
	r.Helper()
	if got := r.settle(s)[0]; got.Stale || got.Err != nil || got.State != want {
		r.Fatalf("%v of %s/%s: %+v, want %v", s.Verdict, s.Queue, s.ID, got, want)
	}
}

func (r *rig) stale(s queue.Settlement) {
	r.Helper()
	if got := r.settle(s)[0]; !got.Stale || got.Err != nil || got.State != queue.StateNone {
		r.Fatalf("%v of %s/%.40s by %.40q: %+v, want stale", s.Verdict, s.Queue, s.ID, string(s.Fence), got)
	}
}

func (r *rig) deliver(list ...queue.Reservation) {
	r.Helper()
	for _, v := range list {
		r.settled(queue.Delivered, settlement(queue.Deliver, v))
	}
}

// fail settles jobs as failed, to be retried after some time.
func (r *rig) fail(after time.Duration, list ...queue.Reservation) {
	r.Helper()
	for _, v := range list {
		s := settlement(queue.Fail, v)
		s.After, s.Reason = after, "it failed"
		r.settled(queue.Scheduled, s)
	}
}

func (r *rig) release(list ...queue.Reservation) {
	r.Helper()
	for _, v := range list {
		r.settled(queue.Waiting, settlement(queue.Release, v))
	}
}

// extend extends a lease, which must then last for left; 0 means that the lease must be lost.
func (r *rig) extend(v queue.Reservation, left time.Duration) {
	r.Helper()
	if out := r.extended(v); out.Left != left {
		r.Fatalf("extend %s/%s at %v: %v; want %v", v.Queue, v.ID, r.clock.Now().Time(), out, left)
	}
}

// extended extends a lease and returns the answer.
func (r *rig) extended(v queue.Reservation) queue.Extended {
	r.Helper()
	out, err := r.e.Extend(r.ctx, []queue.Lease{lease(v)})
	if err != nil || len(out) != 1 || out[0].Err != nil {
		r.Fatalf("extend %s/%s at %v: %+v, %v", v.Queue, v.ID, r.clock.Now().Time(), out, err)
	}
	return out[0]
}

// leftOf returns how long the extended leases last.
func leftOf(answers []queue.Extended) []time.Duration {
	left := make([]time.Duration, len(answers))
	for i := range answers {
		left[i] = answers[i].Left
	}
	return left
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
