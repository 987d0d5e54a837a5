package virtualtime_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/virtualtime"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/unit"
)

// drained is an engine and a drainer that notes when jobs leave, by the engine's clock.
type drained struct {
	*testing.T
	*virtualtime.Engine

	mu   sync.Mutex
	left []departure
}

type departure struct {
	id string
	at time.Time
}

func open(t *testing.T) *drained {
	t.Helper()
	e, err := virtualtime.Open(t.Context(), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := &drained{T: t, Engine: e}
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() {
		over <- drain.Run(ctx, e, drain.HandlerFunc(func(_ context.Context, j *drain.Job) error {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.left = append(d.left, departure{j.ID, e.Now()})
			return nil
		}), drain.Options{})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func (d *drained) put(name string, rate leaky.Rate) {
	d.Helper()
	if _, err := d.Put(d.Context(), queue.Spec{Name: name, Rate: rate}, queue.AnyRevision); err != nil {
		d.Fatal(err)
	}
}

func (d *drained) append(name string, n int, change func(*queue.Job)) {
	d.Helper()
	for i := range n {
		j := queue.Job{Queue: name, ID: fmt.Sprint(name, i), Payload: []byte("{}")}
		if change != nil {
			change(&j)
		}
		if a, err := d.Append(d.Context(), []queue.Job{j}); err != nil || a[0].Outcome != queue.Accepted {
			d.Fatalf("append: %+v, %v", a, err)
		}
	}
}

func (d *drained) advance(by time.Duration) {
	d.Helper()
	from := d.Now()
	now, err := d.Advance(d.Context(), by)
	if err != nil {
		d.Fatal(err)
	}
	if now.Sub(from) < by {
		d.Errorf("the clock advanced by %v instead of %v", now.Sub(from), by)
	}
}

// departed returns what has left since the last call.
func (d *drained) departed() []departure {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := d.left
	d.left = nil
	return left
}

func TestAdvance(t *testing.T) {
	d := open(t)
	rate, err := leaky.ParseRate("1/h")
	if err != nil {
		t.Fatal(err)
	}
	d.put("hourly", rate)
	d.put("often", leaky.PerSecond(2))
	d.append("hourly", 5, nil)
	d.append("often", 20, nil)
	d.advance(3*time.Hour - time.Minute)
	var hourly []departure
	left := d.departed()
	for _, l := range left {
		if l.id[0] == 'h' {
			hourly = append(hourly, l)
		}
	}
	if len(left)-len(hourly) != 20 || len(hourly) != 3 {
		t.Fatalf("%d and %d left: %v", len(left)-len(hourly), len(hourly), left)
	}
	if !slices.IsSortedFunc(left, func(a, b departure) int { return a.at.Compare(b.at) }) {
		t.Errorf("not in order: %v", left)
	}
	for i := range hourly[1:] {
		if apart := hourly[i+1].at.Sub(hourly[i].at); apart < time.Hour-time.Second || apart > time.Hour+time.Minute {
			t.Errorf("%s left %v after the one before", hourly[i+1].id, apart)
		}
	}
	d.advance(2 * time.Minute) // a minute more: the first left a little after its queue began
	if left := d.departed(); len(left) != 1 {
		t.Errorf("%v left about its turn", left)
	}
}

func TestAdvanceToSchedule(t *testing.T) {
	d := open(t)
	d.put("q", leaky.Unlimited)
	d.append("q", 1, func(j *queue.Job) { j.NotBefore = d.Now().Add(24 * time.Hour) })
	d.advance(23 * time.Hour)
	if left := d.departed(); len(left) > 0 {
		t.Errorf("%v left too early", left)
	}
	d.advance(time.Hour)
	if left := d.departed(); len(left) != 1 {
		t.Errorf("%v left", left)
	}
}

func TestAdvancePastLease(t *testing.T) {
	d := open(t)
	s := queue.Spec{Name: "p", Rate: leaky.Unlimited, Pull: true, Lease: unit.Duration(time.Minute)}
	if _, err := d.Put(t.Context(), s, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	d.append("p", 1, nil)
	lease := func(number uint64) int {
		t.Helper()
		r := queue.ReserveRequest{Queue: "p", Client: queue.Client{ID: "worker"}, Number: number, Max: 1}
		out, err := d.Reserve(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return len(out.Jobs)
	}
	if n := lease(1); n != 1 {
		t.Fatalf("%d jobs", n)
	}
	d.advance(2 * time.Minute)
	if n := lease(2); n != 1 {
		t.Errorf("%d jobs after the lease ran out", n)
	}
}

// The clock does not run past the lease of a job that a worker takes just when the clock looks whether any does.
func TestAdvanceWaitsForPullers(t *testing.T) {
	d := open(t)
	const jobs = 300
	rate, err := leaky.ParseRate("1/m")
	if err != nil {
		t.Fatal(err)
	}
	s := queue.Spec{Name: "p", Rate: rate, Pull: true, Lease: unit.Duration(30 * time.Second)}
	if _, err := d.Put(t.Context(), s, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	d.append("p", jobs, nil)
	ctx, stop := context.WithCancel(t.Context())
	var leases atomic.Int64
	over := make(chan error, 1)
	go func() { over <- pullAll(ctx, d.Engine, "p", &leases) }()
	for leases.Load() == 0 { // until then nobody waits for the clock
		time.Sleep(time.Millisecond)
	}
	d.advance(jobs * time.Minute)
	stop()
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	if n := leases.Load(); n != jobs {
		t.Errorf("%d leases of %d jobs", n, jobs)
	}
}

// pullAll leases the jobs of a queue and delivers each a moment later, until ctx ends. It counts the leases.
func pullAll(ctx context.Context, e *virtualtime.Engine, name string, leases *atomic.Int64) error {
	wakes := e.Wake(ctx)
	for number := uint64(1); ; number++ {
		r := queue.ReserveRequest{Queue: name, Client: queue.Client{ID: "worker"}, Number: number, Max: 1}
		out, err := e.Reserve(ctx, r)
		if err != nil {
			return closing(ctx, err)
		}
		for _, j := range out.Jobs {
			leases.Add(1)
			time.Sleep(100 * time.Microsecond)
			done := queue.Settlement{
				Lease: queue.Lease{Queue: j.Queue, ID: j.ID, Fence: j.Fence}, Verdict: queue.Deliver,
			}
			if _, err := e.Settle(ctx, []queue.Settlement{done}); err != nil {
				return closing(ctx, err)
			}
		}
		if out.Next == 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wakes:
		case <-time.After(min(out.Next, time.Second)):
		}
	}
}

// closing returns nil for errors of a context that has ended.
func closing(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
