package boltq

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/machine"
)

// crowd is many concurrent callers of everything, and an overflow that keeps deferred jobs.
type crowd struct {
	*bench

	mu        sync.Mutex
	shelf     []queue.Readmission
	taken     int
	copies    int64           // on the shelf, of jobs that were deferred before
	in        map[string]bool // accepted, or deferred and stored
	cancelled map[string]bool
	left      map[string]int // how often a job was delivered
	full      atomic.Int64
	asked     atomic.Int64
}

// next returns an id that is new or recent.
func (c *crowd) next(rnd *rand.Rand) int { return int(c.asked.Add(1)/2) + rnd.IntN(50) }

func (c *crowd) job(n int) queue.Job {
	return queue.Job{Queue: "q", ID: fmt.Sprintf("job-%06d", n), Payload: make([]byte, 100)}
}

// tell notes what became of an offered or appended job: one in four deferred jobs cannot be stored. A caller that is
// told the job was deferred before stores it again: it now has the ticket, and the earlier caller can no longer
// withdraw the job.
func (c *crowd) tell(j queue.Job, a queue.Appended, lost bool) {
	stores := a.Outcome == queue.SetAside || a.Outcome == queue.Duplicate && a.Ticket != ""
	switch {
	case stores && lost:
		if _, err := c.Withdraw(context.Background(), []queue.Ticketed{{
			Queue: "q", ID: j.ID, Ticket: a.Ticket,
		}}); err != nil {
			c.Errorf("withdraw: %v", err)
		}
	case stores:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.in[j.ID] = true
		if a.Outcome == queue.Duplicate {
			c.copies++
		}
		c.shelf = append(c.shelf, queue.Readmission{Job: j, Order: int64(len(c.shelf) + 1), Ticket: a.Ticket, At: a.At})
	case a.Outcome == queue.Accepted:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.in[j.ID] = true
	case errors.Is(a.Err, queue.ErrStoreFull):
		c.full.Add(1)
	case a.Outcome == queue.Failed || a.Outcome == queue.Conflict:
		c.Errorf("%s: %+v", j.ID, a)
	}
}

// come offers and appends until enough has happened.
func (c *crowd) come(rnd *rand.Rand, enough func() bool) {
	for n := 0; n < 60 || !enough(); n++ {
		jobs := make([]queue.Job, 1+rnd.IntN(3))
		for i := range jobs {
			jobs[i] = c.job(c.next(rnd))
		}
		call := c.Offer
		if rnd.IntN(3) == 0 {
			call = c.Append
		}
		answers, err := call(context.Background(), jobs)
		if err != nil && !errors.Is(err, queue.ErrStoreFull) {
			c.Error(err)
			return
		}
		for i, a := range answers {
			c.tell(jobs[i], a, rnd.IntN(4) == 0)
		}
	}
}

// back hands in the next jobs, as a holder that may meet another holder or hand in the same jobs; it returns how many
// are left.
func (c *crowd) back(holder string, most int) int {
	c.mu.Lock()
	from := c.taken
	list := c.shelf[from:min(len(c.shelf), from+most)]
	behind := len(c.shelf) - from - len(list)
	c.mu.Unlock()
	r := queue.ReadmitRequest{Queue: "q", Holder: holder, Overflow: "o", Jobs: list, Behind: int64(behind), Leave: true}
	m, err := c.Readmit(context.Background(), r)
	if err != nil && !errors.Is(err, queue.ErrStoreFull) {
		c.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, o := range m.Outcomes {
		if o.Final() {
			c.taken = max(c.taken, from+i+1)
		} else if o != readmit.NotYet {
			c.Errorf("%s: %v", list[i].ID, o)
		}
	}
	return len(list) + behind
}

func (c *crowd) leave(client string, n uint64, rnd *rand.Rand) int {
	ctx := context.Background()
	r, err := c.Reserve(ctx, queue.ReserveRequest{Client: queue.Client{ID: client}, Number: n, Max: 1 + rnd.IntN(20)})
	if err != nil && !errors.Is(err, queue.ErrStoreFull) {
		c.Error(err)
		return 0
	}
	verdict := queue.Deliver
	if rnd.IntN(4) == 0 {
		verdict = queue.Release
	}
	s, err := c.Settle(ctx, enginetest.Settlements(verdict, r.Jobs))
	if err != nil && !errors.Is(err, queue.ErrStoreFull) {
		c.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range s {
		if s[i].State == queue.Delivered {
			c.left[r.Jobs[i].ID]++
		}
	}
	return len(r.Jobs)
}

func (c *crowd) cancel(rnd *rand.Rand) {
	id := c.job(int(c.asked.Load()/2) + rnd.IntN(50)).ID
	s, err := c.Cancel(context.Background(), "q", id)
	if err != nil && !errors.Is(err, queue.ErrUnknownJob) && !errors.Is(err, queue.ErrStoreFull) {
		c.Error(err)
	}
	if s == queue.Cancelled {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.cancelled[id] = true
	}
}

// With all calls at the same time: every accepted or stored job leaves once or was cancelled, nothing else leaves, and
// the counts add up.
func TestACrowdOnTheOverflow(t *testing.T) {
	var on atomic.Bool
	fails := func(tx machine.Transaction) (machine.Transaction, error) {
		if on.Load() && rand.IntN(3) == 0 {
			return tightTransaction{tx, "jobs deferred"}, nil
		}
		return tx, nil
	}
	for what, fault := range map[string]func(machine.Transaction) (machine.Transaction, error){
		"with room": nil, "in a file that is full at times": fails,
	} {
		t.Run(what, func(t *testing.T) {
			c := &crowd{
				bench: start(t, Options{Now: wall, fault: fault}), in: map[string]bool{}, cancelled: map[string]bool{},
				left: map[string]int{},
			}
			ctx := context.Background()
			c.MustPut("q", "unlimited", enginetest.Deferring(10))
			on.Store(true)
			deadline := time.Now().Add(time.Minute)
			enough := func() bool {
				return c.MustGet("q").Returned > 50 && (fault == nil || c.full.Load() > 50) || time.Now().After(deadline)
			}
			var callers, others sync.WaitGroup
			for w := range 8 {
				callers.Go(func() { c.come(rand.New(rand.NewPCG(7, uint64(w))), enough) })
			}
			done := make(chan struct{})
			beside := func(f func(n uint64, rnd *rand.Rand)) {
				seed := rand.Uint64()
				others.Go(func() {
					rnd := rand.New(rand.NewPCG(8, seed))
					for n := uint64(1); ; n++ {
						select {
						case <-done:
							return
						default:
							f(n, rnd)
						}
					}
				})
			}
			beside(func(n uint64, rnd *rand.Rand) { c.back("one", 1+rnd.IntN(40)) })
			beside(func(n uint64, rnd *rand.Rand) { c.back("two", 1+rnd.IntN(40)) })
			beside(func(n uint64, rnd *rand.Rand) { c.leave("a", n, rnd) })
			beside(func(n uint64, rnd *rand.Rand) { c.cancel(rnd) })
			beside(func(n uint64, rnd *rand.Rand) {
				if spec := c.MustGet("q").Spec; n%2 == 0 {
					spec.Capacity = 8 + rnd.Int64N(4)
					_, _ = c.Put(ctx, spec, queue.AnyRevision)
				}
				_, _ = c.Job(ctx, "q", c.job(rnd.IntN(1+int(c.asked.Load()))).ID)
				_, _ = c.Backlogged(ctx, 3)
				c.forgive() // it is full for a moment only
				_ = c.MustGet("q")
			})
			callers.Wait()
			close(done)
			others.Wait()
			on.Store(false)
			c.forgive()
			for n := uint64(1 << 40); ; n++ {
				if i := c.MustGet("q"); c.back("last", 100)+int(i.Size()) == 0 {
					break
				}
				c.leave("a", n, rand.New(rand.NewPCG(9, n)))
			}
			c.judge()
			before := c.MustGet("q")
			c.reopen()
			if i := c.MustGet("q"); i.Delivered != before.Delivered || i.Deferred != 0 || i.Size() != 0 ||
				i.Cancelled != before.Cancelled {
				t.Errorf("opened again: %+v, before %+v", i, before)
			}
		})
	}
}

func (c *crowd) judge() {
	c.Helper()
	for n := range int(c.asked.Load()) + 50 {
		id := c.job(n).ID
		want := 0
		if c.in[id] && !c.cancelled[id] {
			want = 1
		}
		if c.left[id] != want {
			c.Errorf("%s was delivered %d times: in %v, cancelled %v", id, c.left[id], c.in[id], c.cancelled[id])
		}
	}
	i := c.MustGet("q")
	// A copy may come back whose record was withdrawn: it was never counted as deferred.
	if in, out := i.Appended+i.SetAside, i.Returned+i.Delivered+i.Died+i.Cancelled+i.TimedOut+i.Missing; out < in ||
		out > in+c.copies || i.Deferred != 0 || i.Returned == 0 {
		c.Errorf("%d in, %d out: %+v", in, out, i)
	}
	if i.Back != 0 || i.DeferredCost != 0 {
		c.Errorf("left over: back %d, cost %d", i.Back, i.DeferredCost)
	}
	// only cancelled jobs that were never stored may be recorded
	if n := c.bench.records(deferredTable); n > len(c.cancelled) {
		c.Errorf("%d records, and %d were cancelled", n, len(c.cancelled))
	}
}
