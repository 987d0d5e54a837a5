package examples

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/virtualtime"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

// world is an engine with the queues of a file, in virtual time, and what leaves them.
type world struct {
	*testing.T
	*virtualtime.Engine
	mu   sync.Mutex
	left []left
}

type left struct {
	lane string
	at   time.Time
}

// load opens a world. Instead of the targets and workers of the file, a handler gets the jobs.
func load(t *testing.T, file string) *world {
	t.Helper()
	e, err := virtualtime.Open(t.Context(), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, Engine: e}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	f, err := config.Parse(file, text, func(_ string, raw json.RawMessage) error {
		_, err := deliver.Parse(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range f.Queues {
		s.Pull = false
		if _, err := e.Put(t.Context(), s, queue.AnyRevision); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() {
		over <- drain.Run(ctx, e, drain.HandlerFunc(func(_ context.Context, j *drain.Job) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.left = append(w.left, left{j.Lane, e.Now()})
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
	return w
}

func (w *world) append(name, lane string, n int) {
	w.Helper()
	jobs := make([]queue.Job, n)
	for i := range jobs {
		jobs[i] = queue.Job{Queue: name, Lane: lane, ID: queue.NewID(), Payload: []byte("{}")}
	}
	answers, err := w.Append(w.Context(), jobs)
	if err != nil {
		w.Fatal(err)
	}
	for _, a := range answers {
		if a.Outcome != queue.Accepted {
			w.Fatalf("%+v", a)
		}
	}
}

// purge removes what waits.
func (w *world) purge(name string) {
	w.Helper()
	for more := (queue.PurgeRequest{Queue: name, State: queue.Waiting, Limit: queue.MaxPage}); ; {
		purged, err := w.Purge(w.Context(), more)
		if err != nil {
			w.Fatal(err)
		}
		if more.After = purged.Next; more.After == "" {
			return
		}
	}
}

// until advances the clock to an instant, and returns what has left since the last call.
func (w *world) until(at time.Time) []left {
	w.Helper()
	if _, err := w.Advance(w.Context(), at.Sub(w.Now())); err != nil {
		w.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	gone := w.left
	w.left = nil
	return gone
}

func zone(t *testing.T) *time.Location {
	t.Helper()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return berlin
}

// tomorrow is a time of day after the next midnight there.
func tomorrow(now time.Time, hour int) time.Time {
	return time.Date(now.Year(), now.Month(), now.Day()+1, hour, 0, 0, 0, now.Location())
}

// A newsletter doubles from day to day, by day only. A day without jobs is repeated.
func TestWarmup(t *testing.T) {
	w := load(t, "warmup.yaml")
	day := tomorrow(w.Now().In(zone(t)), 0)
	w.until(day)
	for n, want := range []int{50, 100, 200, 0, 400} {
		if want > 0 {
			w.append("newsletter", fmt.Sprint("day", n), want+1)
		}
		gone := w.until(tomorrow(day, 0))
		if len(gone) != want {
			t.Errorf("%d left on day %d, want %d", len(gone), n, want)
		}
		for _, j := range gone {
			if hour := j.at.In(zone(t)).Hour(); hour < 8 || hour >= 20 {
				t.Fatalf("a job left at %v", j.at)
			}
		}
		w.purge("newsletter")
		day = tomorrow(day, 0)
	}
}

// Tenants with work get their shares, and no more than their rates; the nightly tenant gets its share at night.
func TestTenants(t *testing.T) {
	w := load(t, "tenants.yaml")
	noon := tomorrow(w.Now().In(zone(t)), 12)
	w.until(noon)
	lanes := []string{"acme", "a", "b", "c", "d", "nightly"}
	count := func(gone []left) (n []int) {
		for _, lane := range lanes {
			of := slices.DeleteFunc(slices.Clone(gone), func(j left) bool { return j.lane != lane })
			n = append(n, len(of))
		}
		return n
	}
	// The first lane has jobs a little before the others.
	shared := func(what string, got []int, shares ...int) {
		t.Helper()
		all, of := 0, 0
		for i := range got {
			all, of = all+got[i], of+shares[i]
		}
		for i := range got {
			if d := got[i] - all*shares[i]/of; d < -4 || d > 4 {
				t.Errorf("%s: %v of %v left, shared as %v", what, got, lanes, shares)
				return
			}
		}
	}
	for _, lane := range lanes {
		w.append("render", lane, 200)
	}
	shared("by day", count(w.until(noon.Add(14*time.Second))), 3, 1, 1, 1, 1, 0)
	w.purge("render")
	w.append("render", "a", 100)
	if gone := w.until(noon.Add(20 * time.Second)); len(gone) < 20 || len(gone) > 31 { // 5/s
		t.Errorf("%d left in 6 s", len(gone))
	}
	w.purge("render")
	night := time.Date(noon.Year(), noon.Month(), noon.Day(), 22, 0, 0, 0, noon.Location())
	w.until(night)
	for _, lane := range lanes {
		w.append("render", lane, 100)
	}
	shared("at night", count(w.until(night.Add(8*time.Second))), 3, 1, 1, 1, 1, 1)
}

// A tenant of llm.batch gets the tokens of its own limit, whatever another one has to do.
func TestTokensOfTenants(t *testing.T) {
	w := load(t, "llm.yaml")
	w.append("llm.batch", "acme", 300)
	w.append("llm.batch", "another", 300)
	left := map[string]int{}
	for _, j := range w.until(w.Now().Add(time.Minute)) {
		left[j.lane]++
	}
	// Each is charged the estimate, 1000 tokens. A burst has 20 jobs.
	for lane, want := range map[string]int{"acme": 20 + 120, "another": 20 + 40} {
		if n := left[lane]; n < want-2 || n > want+1 {
			t.Errorf("%d of %s left in a minute, want %d", n, lane, want)
		}
	}
}
