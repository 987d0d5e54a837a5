package boltq

import (
	"context"
	"sync"
	"testing"

	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/queue"
)

// acked is what a caller was told about a job, and which copy existed by then.
type acked struct {
	id   string
	what string
	copy int64
}

// overflowRun is a store under load whose file is copied at each commit.
type overflowRun struct {
	*bench
	copies *copies

	mu    sync.Mutex
	shelf []queue.Readmission // everything ever deferred, in order
	order map[string]int64
	taken int // of the shelf
	acks  []acked
}

func (r *overflowRun) note(id, what string, at int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acks = append(r.acks, acked{id, what, at})
}

// offers offers jobs and stores the deferred ones.
func (r *overflowRun) offers(from, n int) {
	for i := range n {
		j := enginetest.Job("q", from+i)
		a, err := r.Offer(context.Background(), []queue.Job{j})
		at := r.copies.n.Load()
		if err != nil {
			r.Error(err)
			return
		}
		if r.note(j.ID, a[0].Outcome.String(), at); a[0].Outcome == queue.SetAside {
			r.mu.Lock()
			order := int64(len(r.shelf) + 1)
			r.shelf = append(r.shelf, queue.Readmission{Job: j, Order: order, Ticket: a[0].Ticket, At: a[0].At})
			r.order[j.ID] = order
			r.mu.Unlock()
		}
	}
}

// back hands in the next jobs of the shelf, and reports whether any are left.
func (r *overflowRun) back(most int) bool {
	r.mu.Lock()
	list := r.shelf[r.taken:min(len(r.shelf), r.taken+most)]
	behind := int64(len(r.shelf) - r.taken - len(list))
	r.mu.Unlock()
	m, err := r.Readmit(context.Background(), queue.ReadmitRequest{
		Queue: "q", Holder: "h", Overflow: "o", Jobs: list, Behind: behind,
	})
	at := r.copies.n.Load()
	if err != nil {
		r.Error(err)
		return false
	}
	for i, o := range m.Outcomes {
		if !o.Final() {
			break
		}
		r.note(list[i].ID, o.String(), at)
		r.taken++
	}
	return len(list) > 0
}

// last returns the last job of the shelf that is not handed in yet, or else another.
func (r *overflowRun) last(other string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.shelf); n > r.taken {
		return r.shelf[n-1].ID
	}
	return other
}

// Whichever commit was the last: acknowledged deferrals are recorded, acknowledged readmissions are there with the
// order moved, and handing in the whole overflow again ends every job exactly once.
func TestDeferredJobsAreOnDisk(t *testing.T) {
	c := &copies{TB: t, dir: t.TempDir()}
	r := &overflowRun{bench: start(t, Options{synced: c.take}), copies: c, order: map[string]int64{}}
	r.MustPut("q", "unlimited", enginetest.Deferring(12))
	c.of = r.Engine
	const offerers, each = 6, 20
	var callers, others sync.WaitGroup
	for w := range offerers {
		callers.Go(func() { r.offers(w*each, each) })
	}
	all := make(chan struct{})
	others.Go(func() {
		for n := 0; ; n++ {
			left := r.back(1 + n%5)
			select {
			case <-all:
				if !left {
					return
				}
			default:
			}
			for _, j := range r.MustReserve(3) {
				r.MustSettle(queue.Deliver, []queue.Reservation{j})
				r.note(j.ID, "delivered", c.n.Load())
			}
			if n%7 == 0 {
				id := r.last(enginetest.Job("q", n*5%(offerers*each)).ID)
				if s, err := r.Cancel(context.Background(), "q", id); err == nil && s == queue.Cancelled {
					r.note(id, "cancelled", c.n.Load())
				}
			}
		}
	})
	callers.Wait()
	close(all)
	others.Wait()
	taken := c.n.Load()
	told := map[string]int{}
	for _, a := range r.acks {
		told[a.what]++
	}
	if taken < 50 || told["set_aside"] < 20 || told["returned"] < 20 || told["passed"] < 1 ||
		told["cancelled"] < 1 {
		t.Fatalf("%d copies, told %v", taken, told)
	}
	for i := int64(2); i <= taken; i++ {
		r.check(i, i, i%9 == 0)
		tear(t, c.path(i))
		r.check(i, i-1, i%9 == 4)
	}
}

// check compares a copy with what callers were told by then.
func (r *overflowRun) check(i, upTo int64, replay bool) {
	r.Helper()
	b := &bench{Caller: enginetest.New(r.TB), opts: Options{Now: r.Now}}
	e, err := Open(context.Background(), r.copies.path(i), b.opts)
	if err != nil {
		r.Fatal(err)
	}
	defer e.Close()
	b.Engine, b.Callee = e, e
	order := first(e.Readmit(context.Background(), queue.ReadmitRequest{
		Queue: "q", Holder: "look", Overflow: "o", Behind: 1, Leave: true,
	})).Order
	states := map[string]queue.State{}
	for _, a := range r.acks {
		j, err := e.Job(context.Background(), "q", a.id)
		states[a.id] = j.State
		if a.copy > upTo {
			continue
		}
		back := r.order[a.id] != 0 && r.order[a.id] <= order
		if err != nil || back == (j.State == queue.Deferred) && a.what == "set_aside" && j.State != queue.Cancelled ||
			a.what == "returned" && !back ||
			a.what == "delivered" && j.State != queue.Delivered || a.what == "cancelled" && j.State != queue.Cancelled {
			r.Errorf("copy %d: %s was told to be %s before copy %d, and is %v, %v; "+
				"its order is %d, that of the queue %d",
				i, a.id, a.what, a.copy, j.State, err, r.order[a.id], order)
		}
	}
	var deferred, placed int64
	for _, s := range states {
		switch s {
		case queue.Deferred:
			deferred++
		case queue.Waiting, queue.Scheduled:
			placed++
		}
	}
	if info := b.MustGet("q"); first(e.Totals(context.Background())).Deferred != deferred || info.Size() != placed {
		r.Errorf(
			"copy %d: %d deferred and %d in their places, counted %d and %d", i, deferred, placed,
			first(e.Totals(context.Background())).Deferred, info.Size(),
		)
	}
	if replay {
		r.replay(b, i, states)
	}
}

// replay hands in everything from the beginning, and delivers what comes.
func (r *overflowRun) replay(b *bench, copy int64, states map[string]queue.State) {
	r.Helper()
	left := map[string]int{}
	drain := func() {
		for got := b.MustReserve(100); len(got) > 0; got = b.MustReserve(100) {
			b.MustSettle(queue.Deliver, got)
			for _, j := range got {
				left[j.ID]++
			}
		}
	}
	for done := 0; done < len(r.shelf); {
		drain()
		m, err := b.Readmit(context.Background(), queue.ReadmitRequest{
			Queue: "q", Holder: "x", Overflow: "o", Jobs: r.shelf[done:min(len(r.shelf), done+50)],
		})
		if err != nil {
			r.Fatal(err)
		}
		for _, o := range m.Outcomes {
			if o.Final() {
				done++
			}
		}
	}
	drain()
	for _, j := range r.shelf {
		want := 1
		if s := states[j.ID]; s == queue.Delivered || s == queue.Cancelled {
			want = 0
		}
		if left[j.ID] != want {
			r.Errorf("copy %d: %s, %v in it, was delivered %d times after it", copy, j.ID, states[j.ID], left[j.ID])
		}
	}
	if i := b.MustGet("q"); i.Size() != 0 || i.Deferred != 0 {
		r.Errorf("copy %d: %+v", copy, i)
	}
}
