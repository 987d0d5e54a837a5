package prove

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/prove/receiver"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// rigged is an installation whose outflow is a function of this test, which posts the appended jobs correctly or not.
type rigged struct {
	post func(deliver func(id string), id string)
	// seen reports whether a drainer has started; nil means always.
	seen func(pid int) bool

	mu      sync.Mutex
	url     string
	waiting []string
	removed bool
	stop    context.CancelFunc
	flow    sync.WaitGroup
}

func (s *rigged) Make(_ context.Context, spec queue.Spec) error {
	var target struct{ HTTP struct{ URL string } }
	if err := json.Unmarshal(spec.Deliver, &target); err != nil {
		return err
	}
	s.url = target.HTTP.URL
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	s.flow.Go(func() { s.run(ctx, spec.Rate.Interval()) })
	return nil
}

func (s *rigged) run(ctx context.Context, interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		id := ""
		if len(s.waiting) > 0 {
			id = s.waiting[0]
		}
		s.mu.Unlock()
		if id == "" {
			continue
		}
		s.post(s.deliver, id)
		s.mu.Lock()
		s.waiting = s.waiting[1:] // it claims the job was delivered
		s.mu.Unlock()
	}
}

func (s *rigged) deliver(id string) {
	req, err := http.NewRequest(http.MethodPost, s.url, strings.NewReader("{}"))
	if err != nil {
		panic(err)
	}
	req.Header.Set(receiver.HeaderID, id)
	if resp, err := http.DefaultClient.Do(req); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
}

func (s *rigged) Drains(_ context.Context, pid int) (bool, error) {
	return s.seen == nil || s.seen(pid), nil
}

func (s *rigged) Append(_ context.Context, _ string, list []NewJob) ([]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ok := make([]bool, len(list))
	for i, j := range list {
		s.waiting = append(s.waiting, j.ID)
		ok[i] = true
	}
	return ok, nil
}

func (s *rigged) Look(context.Context, string) (Stats, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{Held: int64(len(s.waiting))}, nil
}

func (s *rigged) Remove(context.Context, string) error {
	s.removed = true
	s.stop()
	s.flow.Wait()
	return nil
}

func TestRunSeesThrough(t *testing.T) {
	cat, err := exec.LookPath("cat") // a process that does nothing and ends with its standard input
	if err != nil {
		t.Fatal(err)
	}
	var saved []string
	tests := []struct {
		name   string
		post   func(deliver func(string), id string)
		broken string
	}{
		{"honest", func(deliver func(string), id string) { deliver(id) }, ""},
		{"drops one in ten", func(deliver func(string), id string) {
			if !strings.HasSuffix(id, "7") {
				deliver(id)
			}
		}, "never arrived"},
		{"delivers twice", func(deliver func(string), id string) {
			deliver(id)
			if strings.HasSuffix(id, "7") {
				deliver(id)
			}
		}, "arrived again"},
		{
			"delivers jobs that were never appended", func(deliver func(string), id string) { deliver(id); deliver("x" + id) },
			"no accepted job",
		},
		{"delivers nothing", func(func(string), string) {}, "proves nothing"},
		{"saves up for bursts", func(deliver func(string), id string) {
			if saved = append(saved, id); len(saved) == 20 {
				for _, id := range saved {
					deliver(id)
				}
				saved = nil
			}
		}, "the window law"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &rigged{post: tt.post}
			r, err := Run(t.Context(), Options{
				Store: s, Drainers: 1, Rate: leaky.PerSecond(100), Duration: time.Second, Faults: NoFaults,
				Drainer: func(int) Command { return Command{Path: cat} },
				// Wide enough for any machine, and far below what a burst of 20 needs.
				Delta: 100 * ms,
			})
			if err != nil {
				t.Fatal(err)
			}
			said := strings.Join(r.Broken, "; ")
			if tt.broken != "" && (r.Held || !strings.Contains(said, tt.broken)) {
				t.Errorf("held %v: %s; want %q", r.Held, said, tt.broken)
			}
			if tt.broken == "" && (r.Lost+r.Twice+r.Strangers != 0 || r.Delivered != r.Accepted) {
				t.Errorf("%+v", r.Account)
			}
			if !s.removed {
				t.Error("the queue was left behind")
			}
		})
	}
}

func TestRunReportsEndedDrainers(t *testing.T) {
	path, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	s := &rigged{post: func(deliver func(string), id string) { deliver(id) }}
	_, err = Run(t.Context(), Options{
		Store: s, Drainers: 2, Rate: leaky.PerSecond(100), Duration: time.Minute, Faults: NoFaults,
		Drainer: func(int) Command { return Command{Path: path} },
	})
	if err == nil || !strings.Contains(err.Error(), "ended by itself") || !s.removed {
		t.Errorf("%v, removed %v", err, s.removed)
	}
}

// TestRunWaitsForDrainers checks that nothing is appended and no fault happens before the store has heard from each
// drainer, and that a missing one is named.
func TestRunWaitsForDrainers(t *testing.T) {
	cat, err := exec.LookPath("cat")
	if err != nil {
		t.Fatal(err)
	}
	s := &rigged{post: func(deliver func(string), id string) { deliver(id) }}
	asked, appended := map[int]int{}, 0
	s.seen = func(pid int) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		appended = max(appended, len(s.waiting))
		asked[pid]++
		return len(asked) == 1 && asked[pid] > 20
	}
	o := Options{
		Store: s, Drainers: 2, Rate: leaky.PerSecond(100), Duration: 2 * time.Second, Startup: 4 * time.Second, Faults: Pause,
		Every: time.Second, Drainer: func(int) Command { return Command{Path: cat} },
		Progress: func(time.Duration, int, int, []Mark) { t.Error("the run has begun") },
	}
	_, err = Run(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "wait 4s for drainer 1") ||
		!strings.Contains(err.Error(), "has not asked") {
		t.Error(err)
	}
	if !s.removed || appended > 0 || len(asked) != 2 {
		t.Errorf("removed %v, %d appended, asked for %v", s.removed, appended, asked)
	}
}

func TestRunBrokenOff(t *testing.T) {
	cat, err := exec.LookPath("cat")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := &rigged{post: func(deliver func(string), id string) { deliver(id); cancel() }}
	_, err = Run(ctx, Options{
		Store: s, Drainers: 1, Rate: leaky.PerSecond(100), Duration: time.Minute, Faults: NoFaults,
		Drainer: func(int) Command { return Command{Path: cat} },
	})
	if err == nil || ctx.Err() == nil || !s.removed {
		t.Errorf("%v, removed %v", err, s.removed)
	}
}
