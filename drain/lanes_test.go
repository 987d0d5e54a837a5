package drain_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/engines"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// inFlight is a handler that records, by lane, the order of jobs and how many ran at once. The first attempt at a job
// fails if its payload asks for that.
type inFlight struct {
	mu         sync.Mutex
	now, most  map[string]int
	order      map[string][]string
	early      []string
	all, peak  int
	fails, hit map[string]bool
}

func newInFlight(fails ...string) *inFlight {
	f := &inFlight{
		now: map[string]int{}, most: map[string]int{}, order: map[string][]string{}, fails: map[string]bool{},
		hit: map[string]bool{},
	}
	for _, id := range fails {
		f.fails[id] = true
	}
	return f
}

func (f *inFlight) handle(_ context.Context, j *drain.Job) error {
	f.mu.Lock()
	f.now[j.Lane]++
	f.all++
	f.most[j.Lane], f.peak = max(f.most[j.Lane], f.now[j.Lane]), max(f.peak, f.all)
	if time.Now().Before(j.NotBefore) {
		f.early = append(f.early, j.ID)
	}
	f.mu.Unlock()
	<-time.After(2 * time.Millisecond) // the work, during which others may start
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now[j.Lane]--
	f.all--
	if f.fails[j.ID] && !f.hit[j.ID] {
		f.hit[j.ID] = true
		return fmt.Errorf("the first attempt")
	}
	f.order[j.Lane] = append(f.order[j.Lane], j.ID)
	return nil
}

// A handler gets a job's lane, priority and schedule, and no more jobs of a lane or queue than max_in_flight are in
// progress at once.
func TestLanesInFlight(t *testing.T) {
	engines.Each(t, func(t *testing.T, e queue.Engine) {
		put(t, e, queue.Spec{
			Name: "a", MaxInFlight: 5, Retry: queue.Retry{
				MinBackoff: unit.Duration(time.Millisecond), MaxBackoff: unit.Duration(time.Millisecond),
			},
			Lanes: queue.Lanes{
				LaneRule: queue.LaneRule{MaxInFlight: 2}, Overrides: map[string]queue.LaneRule{"one": {MaxInFlight: 1}},
			},
		})
		due := time.Now().Add(300 * time.Millisecond)
		var jobs []queue.Job
		var want []string // of lane one, whose jobs leave one by one: the highest priority first
		for i := range 10 {
			for _, lane := range []string{"one", "x", "y", "z"} {
				jobs = append(jobs, queue.Job{Queue: "a", ID: fmt.Sprintf("%s%d", lane, i), Lane: lane, Priority: i})
			}
			want = append([]string{fmt.Sprintf("one%d", i)}, want...)
		}
		jobs = append(jobs, queue.Job{Queue: "a", ID: "later", Lane: "one", NotBefore: due})
		accept(t, e, jobs)
		f := newInFlight("x3", "y7")
		drained(t, e, f, "a", 41)
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.peak > 5 || f.most["one"] > 1 || f.most["x"] > 2 || f.most["y"] > 2 || f.most["z"] > 2 {
			t.Errorf("%d at once; by lane %v", f.peak, f.most)
		}
		got := slices.DeleteFunc(slices.Clone(f.order["one"]), func(id string) bool { return id == "later" })
		if !slices.Equal(got, want) || len(f.order["one"]) != 11 || len(f.early) > 0 {
			t.Errorf("lane one: %v, want %v; before their time: %v", f.order["one"], want, f.early)
		}
	})
}

// In an ordered queue a failing job holds up its lane, and no other.
func TestOrderedLanes(t *testing.T) {
	engines.Each(t, func(t *testing.T, e queue.Engine) {
		put(t, e, queue.Spec{
			Name: "a", Ordered: true, Retry: queue.Retry{
				MinBackoff: unit.Duration(50 * time.Millisecond), MaxBackoff: unit.Duration(50 * time.Millisecond),
				Jitter: "none",
			},
		})
		var jobs []queue.Job
		want := map[string][]string{}
		for i := range 8 {
			for _, lane := range []string{"", "x", "y"} {
				id := fmt.Sprintf("%s-%d", lane, i)
				jobs = append(jobs, queue.Job{Queue: "a", ID: id, Lane: lane})
				want[lane] = append(want[lane], id)
			}
		}
		accept(t, e, jobs)
		f := newInFlight("-2", "x-0", "y-5")
		drained(t, e, f, "a", 24)
		f.mu.Lock()
		defer f.mu.Unlock()
		for lane := range want {
			if f.most[lane] > 1 || !slices.Equal(f.order[lane], want[lane]) {
				t.Errorf("lane %q: %d at once, %v", lane, f.most[lane], f.order[lane])
			}
		}
		if len(f.hit) != 3 {
			t.Errorf("failed: %v", f.hit)
		}
	})
}

func accept(t *testing.T, e queue.Engine, jobs []queue.Job) {
	t.Helper()
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

// drained runs a drainer until a queue has delivered n jobs.
func drained(t *testing.T, e queue.Engine, f *inFlight, name string, n int64) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- drain.Run(ctx, e, drain.HandlerFunc(f.handle), drain.Options{Concurrency: 32}) }()
	await.Until(t, "all are delivered", func() bool {
		info, err := e.Get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return info.Delivered == n
	})
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
