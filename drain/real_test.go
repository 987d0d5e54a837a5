package drain_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/engines"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

func put(t *testing.T, e queue.Engine, s queue.Spec) {
	t.Helper()
	if _, err := e.Put(t.Context(), s, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
}

func push(t *testing.T, e queue.Engine, name string, from, n int) {
	t.Helper()
	jobs := make([]queue.Job, n)
	for i := range jobs {
		jobs[i] = queue.Job{Queue: name, ID: fmt.Sprintf("%06d", from+i), Payload: []byte("{}")}
	}
	answers, err := e.Append(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range answers {
		if a.Outcome != queue.Accepted {
			t.Fatalf("%s: %v %v", a.ID, a.Outcome, a.Err)
		}
	}
}

// record is a handler that records when each job started.
type record struct {
	begin time.Time
	work  time.Duration
	mu    sync.Mutex
	at    map[string][]time.Duration
}

func newRecord(work time.Duration) *record {
	return &record{begin: time.Now(), work: work, at: make(map[string][]time.Duration)}
}

func (r *record) handle(ctx context.Context, job *drain.Job) error {
	now := time.Since(r.begin)
	r.mu.Lock()
	r.at[job.ID] = append(r.at[job.ID], now)
	r.mu.Unlock()
	if r.work > 0 {
		done := time.NewTimer(r.work)
		defer done.Stop()
		select {
		case <-done.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (r *record) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.at)
}

// starts returns all starts in order.
func (r *record) starts() []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []time.Duration
	for _, at := range r.at {
		all = append(all, at...)
	}
	slices.Sort(all)
	return all
}

// once reports jobs that started never or twice.
func (r *record) once(t *testing.T, n int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range n {
		if k := len(r.at[fmt.Sprintf("%06d", i)]); k != 1 {
			t.Errorf("job %d started %d times", i, k)
		}
	}
	if len(r.at) > n {
		t.Errorf("%d jobs started of %d: %v", len(r.at), n, slices.Sorted(maps.Keys(r.at))[n:])
	}
}

// running is a drainer that a test can stop.
type running struct {
	stop context.CancelFunc
	end  chan error
}

func start(e queue.Outflow, h drain.Handler, o drain.Options) *running {
	ctx, stop := context.WithCancel(context.Background())
	r := &running{stop, make(chan error, 1)}
	go func() { r.end <- drain.Run(ctx, e, h, o) }()
	return r
}

func (r *running) finish(t *testing.T) {
	t.Helper()
	r.stop()
	if err := <-r.end; err != nil {
		t.Error(err)
	}
}

func info(t *testing.T, e queue.Engine, name string) *queue.Info {
	t.Helper()
	i, err := e.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return &i
}

func TestDrainsAll(t *testing.T) {
	engines.Each(t, func(t *testing.T, e queue.Engine) {
		const n = 3000
		put(t, e, queue.Spec{Name: "q", Rate: leaky.Unlimited})
		r := newRecord(0)
		d := start(e, drain.HandlerFunc(r.handle), drain.Options{Concurrency: 32})
		for i := 0; i < n; i += 100 {
			push(t, e, "q", i, 100)
		}
		await.Until(t, "all delivered", func() bool { return info(t, e, "q").Delivered == n })
		d.finish(t)
		r.once(t, n)
		if i := info(t, e, "q"); i.Size() != 0 || i.Dead != 0 || i.Retried != 0 {
			t.Errorf("%+v", i)
		}
	})
}

// Two drainers together keep the rate. The tolerance for the time between the gate and the test's own clock is wide:
// only a real burst exceeds it.
func TestPaced(t *testing.T) {
	engines.Each(t, func(t *testing.T, e queue.Engine) {
		const n, delta = 300, 100 * time.Millisecond
		rate := leaky.PerSecond(200)
		put(t, e, queue.Spec{Name: "q", Rate: rate})
		push(t, e, "q", 0, n)
		r := newRecord(0)
		one := start(e, drain.HandlerFunc(r.handle), drain.Options{})
		two := start(e, drain.HandlerFunc(r.handle), drain.Options{})
		await.Until(t, "all delivered", func() bool { return info(t, e, "q").Delivered == n })
		one.finish(t)
		two.finish(t)
		r.once(t, n)
		verdict := law.Law{Rate: rate, Slack: queue.LeastSlack, Delta: delta}.Judge(law.At(r.starts()))
		if !verdict.Held {
			t.Errorf("%d starts in %v, allowed %d", verdict.Worst.Starts, verdict.Worst.Width, verdict.Worst.Allowed)
		}
	})
}

// Drainers are stopped and started in turn, under load. No job is lost, none runs twice, and some job starts in every
// second. The bound here is wider, since the machine may be busy.
func TestRollingRestart(t *testing.T) {
	const most = 3 * time.Second
	engines.Each(t, func(t *testing.T, e queue.Engine) {
		const n = 1200
		put(t, e, queue.Spec{Name: "q", Rate: leaky.PerSecond(200)})
		push(t, e, "q", 0, n)
		r := newRecord(30 * time.Millisecond)
		drainers := [2]*running{}
		for i := range drainers {
			drainers[i] = start(e, drain.HandlerFunc(r.handle), drain.Options{})
		}
		for i := 0; r.count() < n*3/4; i++ {
			seen := r.count()
			await.Until(t, "some more jobs", func() bool { return r.count() >= min(seen+60, n) })
			drainers[i%2].finish(t)
			drainers[i%2] = start(e, drain.HandlerFunc(r.handle), drain.Options{})
		}
		await.Until(t, "all delivered", func() bool { return info(t, e, "q").Delivered == n })
		for _, d := range drainers {
			d.finish(t)
		}
		r.once(t, n)
		starts := r.starts()
		pause := time.Duration(0)
		for i := 1; i < len(starts); i++ {
			pause = max(pause, starts[i]-starts[i-1])
		}
		t.Logf("the longest pause was %v", pause)
		if pause > most {
			t.Errorf("the longest pause was %v", pause)
		}
		if i := info(t, e, "q"); i.Expired != 0 || i.Retried != 0 || i.Size() != 0 {
			t.Errorf("%d leases ran out, %d retries, %d left", i.Expired, i.Retried, i.Size())
		}
	})
}

// A job whose handler fails is retried, and finally dead; another is delivered.
func TestRetried(t *testing.T) {
	engines.Each(t, func(t *testing.T, e queue.Engine) {
		put(t, e, queue.Spec{Name: "q", Rate: leaky.Unlimited, Retry: queue.Retry{
			MaxAttempts: 3, MinBackoff: unit.Duration(time.Millisecond), MaxBackoff: unit.Duration(5 * time.Millisecond),
		}})
		push(t, e, "q", 0, 2)
		var mu sync.Mutex
		attempts := map[string][]int{}
		d := start(e, drain.HandlerFunc(func(_ context.Context, job *drain.Job) error {
			mu.Lock()
			defer mu.Unlock()
			attempts[job.ID] = append(attempts[job.ID], job.Attempt)
			if job.ID == "000001" && job.Attempt == 3 {
				return nil
			}
			return fmt.Errorf("no luck at attempt %d", job.Attempt)
		}), drain.Options{})
		await.Until(t, "both ended", func() bool { return info(t, e, "q").Size() == 0 })
		d.finish(t)
		for id, got := range attempts {
			if !slices.Equal(got, []int{1, 2, 3}) {
				t.Errorf("%s: attempts %v", id, got)
			}
		}
		for id, want := range map[string]queue.State{"000000": queue.Dead, "000001": queue.Delivered} {
			j, err := e.Job(t.Context(), "q", id)
			if err != nil || j.State != want || want == queue.Dead && j.Reason != "no luck at attempt 3" {
				t.Errorf("%s is %v, %q, %v", id, j.State, j.Reason, err)
			}
		}
	})
}

// An append to an idle queue wakes the drainer: no job waits for the next poll.
func TestWoken(t *testing.T) {
	engines.Each(t, func(t *testing.T, e queue.Engine) {
		put(t, e, queue.Spec{Name: "q", Rate: leaky.Unlimited})
		r := newRecord(0)
		d := start(e, drain.HandlerFunc(r.handle), drain.Options{})
		const n = 20
		begin := time.Now()
		for i := range n {
			push(t, e, "q", i, 1)
			await.Until(t, "started", func() bool { return r.count() == i+1 })
		}
		d.finish(t)
		// By polls alone each would take a second on average.
		if took := time.Since(begin); took > n/2*time.Second {
			t.Errorf("%d jobs, one after the other, took %v", n, took)
		}
	})
}
