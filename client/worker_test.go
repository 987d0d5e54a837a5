package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/client"
)

// pullServer hands out jobs and records what becomes of them.
type pullServer struct {
	life     time.Duration // of a lease
	extend   func(id string) string
	settle   func(n int, ids []string, w http.ResponseWriter) bool // answered already
	refusals []int                                                 // of the next requests for leases

	mu       sync.Mutex
	jobs     []string
	settled  map[string]string // outcomes
	extended map[string]int
	settles  int
	changed  chan struct{}
}

func newPullServer(life time.Duration, jobs ...string) *pullServer {
	return &pullServer{
		life: life, jobs: jobs, settled: map[string]string{}, extended: map[string]int{}, changed: make(chan struct{}, 1000),
	}
}

func (s *pullServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Max  int
		Jobs []struct{ ID, Lease, Outcome, After, Reason string }
	}
	_ = json.NewDecoder(r.Body).Decode(&ask)
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	switch r.URL.Path[strings.LastIndex(r.URL.Path, "/"):] {
	case "/leases":
		if len(s.refusals) > 0 {
			refuse(w, s.refusals[0], `{"reason":"no"}`)
			s.refusals = s.refusals[1:]
			return
		}
		if len(s.jobs) == 0 {
			s.mu.Unlock()
			select {
			case <-r.Context().Done():
			case <-time.After(5 * time.Millisecond):
			}
			s.mu.Lock()
		}
		n := min(ask.Max, len(s.jobs))
		for _, id := range s.jobs[:n] {
			out = append(out, fmt.Sprintf(
				`{"id":%q,"payload":{"n": 12345678901234567890},"lease":"l-%s","attempt":1,"expires_in_ms":%d}`,
				id, id, s.life.Milliseconds(),
			))
		}
		s.jobs = s.jobs[n:]
	case "/extend":
		for _, j := range ask.Jobs {
			s.extended[j.ID]++
			if s.extend != nil {
				out = append(out, s.extend(j.ID))
				continue
			}
			out = append(out, fmt.Sprintf(`{"id":%q,"expires_in_ms":%d}`, j.ID, s.life.Milliseconds()))
		}
	case "/settle":
		s.settles++
		var ids []string
		for _, j := range ask.Jobs {
			ids = append(ids, j.ID)
		}
		if s.settle != nil && s.settle(s.settles, ids, w) {
			return
		}
		for _, j := range ask.Jobs {
			s.settled[j.ID] = strings.Join(strings.Fields(j.Outcome+" "+j.After+" "+j.Reason), " ")
			out = append(out, fmt.Sprintf(`{"id":%q,"state":"delivered"}`, j.ID))
			s.changed <- struct{}{}
		}
	}
	_, _ = fmt.Fprintf(w, `{"jobs":[%s]}`, strings.Join(out, ","))
}

// run runs a worker until n jobs are settled, and returns what was reported.
func (s *pullServer) run(t *testing.T, n int, w client.Worker) (kinds []string) {
	t.Helper()
	var mu sync.Mutex
	w.Client = serve(t, s.ServeHTTP, client.WithNotices(func(n client.Notice) {
		mu.Lock()
		defer mu.Unlock()
		kinds = append(kinds, n.Kind)
	}))
	w.Queue = "q"
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- w.Run(ctx) }()
	for range n {
		select {
		case <-s.changed:
		case err := <-over:
			t.Fatalf("it ended: %v", err)
		case <-time.After(20 * time.Second):
			t.Fatalf("only %v", s.settled)
		}
	}
	stop()
	if err := <-over; err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(kinds)
}

func TestOutcomes(t *testing.T) {
	long := strings.Repeat("ä", 400)
	outcomes := map[string]func() error{
		"delivered": func() error { return nil },
		"plain":     func() error { return errors.New("broken") },
		"retry":     func() error { return client.Retry(30*time.Second, "later") },
		"soon":      func() error { return client.Retry(0, "soon") },
		"dead":      func() error { return fmt.Errorf("because: %w", client.Dead("")) },
		"throttled": func() error { return client.Throttled(48*time.Hour, "busy") },
		"released":  func() error { return client.Released() },
		"held":      func() error { return client.Held("sent?") },
		"down":      func() error { return client.Down("away") },
		"panic":     func() error { panic("oh") },
		"exit":      func() error { runtime.Goexit(); return nil },
		"long":      func() error { return errors.New(long) },
	}
	want := map[string]string{
		"delivered": "delivered", "plain": "retry broken", "retry": "retry 30s later", "soon": "retry soon",
		"dead": "dead because: dead", "throttled": "throttled 24h0m0s busy", "released": "released", "held": "held sent?",
		"down": "down away", "panic": "retry the handler panicked: oh", "exit": "retry the handler ended its goroutine",
		"long": "retry " + long[:512],
	}
	s := newPullServer(time.Minute, "")
	s.jobs = nil
	for name := range outcomes {
		s.jobs = append(s.jobs, name)
	}
	kinds := s.run(t, len(outcomes), client.Worker{Handler: func(_ context.Context, task *client.Task) error {
		if string(task.Payload) != `{"n": 12345678901234567890}` || task.Queue != "q" {
			t.Errorf("%+v", task)
		}
		return outcomes[task.ID]()
	}})
	for name, text := range want {
		if s.settled[name] != text {
			t.Errorf("%s: %q, want %q", name, s.settled[name], text)
		}
	}
	if !slices.Contains(kinds, client.NoticeMisuse) || !slices.Contains(kinds, client.NoticeSettled) {
		t.Error(kinds)
	}
}

// A handler that takes longer than its lease keeps it.
func TestLeasesAreExtended(t *testing.T) {
	s := newPullServer(150*time.Millisecond, "a", "b", "c")
	s.run(t, 3, client.Worker{Concurrency: 2, Handler: func(ctx context.Context, _ *client.Task) error {
		select {
		case <-ctx.Done():
			t.Error(context.Cause(ctx))
		case <-time.After(400 * time.Millisecond):
		}
		return nil
	}})
	if s.extended["a"] < 2 {
		t.Errorf("it was extended %v times", s.extended)
	}
}

// A lost lease ends the work, and its outcome is not sent.
func TestLostLease(t *testing.T) {
	s := newPullServer(150*time.Millisecond, "a", "b")
	s.extend = func(id string) string {
		if id == "a" {
			return `{"id":"a","expires_in_ms":0}`
		}
		return `{"id":"b","status":503,"reason":"unavailable","retry_after_ms":1}`
	}
	s.settle = func(_ int, _ []string, _ http.ResponseWriter) bool { return false }
	ended := make(chan error, 2)
	kinds := func() []string {
		go func() {
			for range 2 {
				if err := <-ended; !errors.Is(err, client.ErrLeaseLost) {
					t.Error(err)
				}
			}
			s.mu.Lock()
			s.jobs = []string{"c"}
			s.mu.Unlock()
		}()
		return s.run(t, 1, client.Worker{Handler: func(ctx context.Context, task *client.Task) error {
			if task.ID == "c" {
				return nil
			}
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return nil
		}})
	}()
	if len(s.settled) != 1 || !slices.Contains(kinds, client.NoticeLost) {
		t.Errorf("%v, %v", s.settled, kinds)
	}
}

// A stopping worker waits for its handlers, then cancels them, and retries the jobs of handlers that do not return.
func TestGracefulStop(t *testing.T) {
	s := newPullServer(time.Minute, "quick", "obedient", "stuck")
	started := make(chan struct{}, 3)
	never := make(chan struct{})
	defer close(never)
	cause := make(chan error, 1)
	c := serve(t, s.ServeHTTP)
	w := &client.Worker{
		Client: c, Queue: "q", Grace: 200 * time.Millisecond,
		Handler: func(ctx context.Context, task *client.Task) error {
			started <- struct{}{}
			if task.ID == "quick" {
				time.Sleep(50 * time.Millisecond)
				return ctx.Err() // the worker's context is over, its is not
			}
			if task.ID == "stuck" {
				<-never
			}
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return client.Held("half done")
		},
	}
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- w.Run(ctx) }()
	for range 3 {
		<-started
	}
	stop()
	if err := <-over; err != nil {
		t.Error(err)
	}
	if err := <-cause; !errors.Is(err, client.ErrStopped) {
		t.Error(err)
	}
	if s.settled["quick"] != "delivered" || s.settled["obedient"] != "held half done" ||
		s.settled["stuck"] != "retry the worker stopped" {
		t.Errorf("%v", s.settled)
	}
}

// Jobs that come while the worker stops are released.
func TestLastJobsAreReleased(t *testing.T) {
	s := newPullServer(time.Minute, "late")
	ctx, stop := context.WithCancel(t.Context())
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		stop()
		s.ServeHTTP(w, r)
	})
	w := &client.Worker{Client: c, Queue: "q", Handler: func(context.Context, *client.Task) error {
		t.Error("it started")
		return nil
	}}
	if err := w.Run(ctx); err != nil || s.settled["late"] != "released" {
		t.Errorf("%v, %v", err, s.settled)
	}
}

// A settlement without an answer is sent again, and the lease is extended meanwhile.
func TestLeasesAreKeptUntilTheyAreSettled(t *testing.T) {
	s := newPullServer(300*time.Millisecond, "a")
	again := make(chan struct{})
	s.settle = func(n int, _ []string, _ http.ResponseWriter) bool {
		if n > 1 {
			close(again)
			return false
		}
		s.mu.Unlock()
		<-again
		s.mu.Lock()
		return true
	}
	kinds := s.run(t, 1, client.Worker{Handler: func(context.Context, *client.Task) error { return nil }})
	if s.settled["a"] != "delivered" || s.extended["a"] < 3 || slices.Contains(kinds, client.NoticeLost) {
		t.Errorf("%v, extended %v, %v", s.settled, s.extended, kinds)
	}
}

func TestHandlerThatNeverReturns(t *testing.T) {
	s := newPullServer(time.Minute, "a", "b")
	never := make(chan struct{})
	defer close(never)
	kinds := s.run(t, 2, client.Worker{
		Concurrency: 1, MaxTime: 30 * time.Millisecond,
		Handler: func(_ context.Context, task *client.Task) error {
			if task.ID == "a" {
				<-never
			}
			return nil
		},
	})
	if s.settled["a"] != "retry the handler did not return in time" || !slices.Contains(kinds, client.NoticeAbandoned) {
		t.Errorf("%v, %v", s.settled, kinds)
	}
}

// Settlements are repeated until they are answered, and one bad settlement does not hold up others.
func TestSettlementsAreRepeated(t *testing.T) {
	s := newPullServer(time.Minute, "a", "bad", "c")
	s.settle = func(n int, ids []string, w http.ResponseWriter) bool {
		switch {
		case n == 1:
			refuse(w, 503, `{"reason":"unavailable","retry_after_ms":1}`)
		case n == 2:
			panic(http.ErrAbortHandler)
		case slices.Contains(ids, "bad"):
			refuse(w, 400, `{"reason":"invalid_field"}`)
		default:
			return false
		}
		return true
	}
	kinds := s.run(t, 2, client.Worker{Handler: func(context.Context, *client.Task) error { return nil }})
	if s.settled["a"] != "delivered" || s.settled["c"] != "delivered" ||
		!slices.Contains(kinds, client.NoticeSettleFailed) {
		t.Errorf("%v, %v", s.settled, kinds)
	}
}

// A worker goes on after all refusals.
func TestWorkerIsRefused(t *testing.T) {
	s := newPullServer(time.Minute, "a")
	s.refusals = []int{404, 403, 401}
	kinds := s.run(t, 1, client.Worker{Handler: func(context.Context, *client.Task) error { return nil }})
	kinds = slices.DeleteFunc(kinds, func(kind string) bool { return kind != client.NoticeLeaseFailed })
	if s.settled["a"] != "delivered" || len(kinds) != 3 {
		t.Errorf("%v, %v", s.settled, kinds)
	}
	if err := (&client.Worker{}).Run(t.Context()); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("%v", err)
	}
}
