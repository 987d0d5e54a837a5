package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/unit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// notes is an Observer that remembers.
type notes struct {
	mu            sync.Mutex
	waiting, runs int
	most          int // calls that waited at once
	ended         map[Outcome]int
	ignored       map[string]int // actual costs, by fault
}

func (n *notes) Waits(change int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting += change
	n.most = max(n.most, n.waiting)
}

func (n *notes) Runs(change int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.runs += change
}

func (n *notes) Ignored(_, fault string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ignored[fault]++
}

func (n *notes) Ended(_ string, o Outcome, _ time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended[o]++
}

func (n *notes) text() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return fmt.Sprint(n.waiting, n.runs, n.ended)
}

// rig is a Proxy behind a server, over an engine.
type rig struct {
	t      *testing.T
	engine *boltq.Engine
	proxy  *Proxy
	notes  *notes
	url    string
	errs   chan error // of Serve
	stop   context.CancelFunc
}

func newRig(t *testing.T) *rig {
	t.Helper()
	e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	guard, err := egress.New(egress.Loopback...)
	if err != nil {
		t.Fatal(err)
	}
	dispatcher := pull.New(e, pull.Options{})
	turns := pull.NewQueueTurns(e, dispatcher)
	seen := &notes{ended: map[Outcome]int{}, ignored: map[string]int{}}
	r := &rig{t: t, engine: e, notes: seen, errs: make(chan error, 100)}
	p := New(e, Options{Turns: turns, Router: deliver.New(deliver.Options{Egress: guard}), Observer: r.notes})
	r.proxy = p
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- dispatcher.Run(ctx) }()
	stopping, stop := context.WithCancel(context.Background())
	r.stop = stop
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		within, err := time.ParseDuration(cmp.Or(req.Header.Get("Within"), "1m"))
		if err != nil {
			t.Error(err)
		}
		err = p.Serve(req.Context(), w, req, &Call{
			TurnRequest: pull.TurnRequest{Within: within, Costs: tokensOf(req)}, Queue: "q",
			Path: req.URL.EscapedPath(), Below: "/below", Stopping: stopping,
		})
		r.errs <- err
		if err != nil {
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	r.url = server.URL
	t.Cleanup(func() {
		stop()
		server.Close()
		turns.Close()
		cancel()
		if err := errors.Join(<-ran, p.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) put(target string, change func(*queue.Spec)) {
	r.t.Helper()
	spec := queue.Spec{
		Name: "q", Rate: leaky.Unlimited, Pull: true, Slack: unit.Duration(500 * time.Millisecond),
		Deliver: fmt.Appendf(nil, `{"http":{"url":%q}}`, target),
	}
	if change != nil {
		change(&spec)
	}
	if _, err := r.engine.Put(r.t.Context(), spec, queue.AnyRevision); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) size() int64 {
	info, err := r.engine.Get(context.Background(), "q")
	if err != nil {
		r.t.Fatal(err)
	}
	return info.Size()
}

// After calls that were answered, refused, given up and cut off, no goroutine, place or number is left.
func TestNothingIsLeft(t *testing.T) {
	r := newRig(t)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/hangs" {
			_, _ = io.Copy(io.Discard, req.Body)
			<-req.Context().Done()
		}
	}))
	defer receiver.Close()
	r.put(receiver.URL, nil)
	var client http.Client
	client.Transport = &http.Transport{}
	defer client.CloseIdleConnections()
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			path := "/fine"
			if i%3 == 0 {
				path = "/hangs"
				time.AfterFunc(time.Duration(i)*time.Millisecond, cancel)
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+path, strings.NewReader("body"))
			if err != nil {
				t.Error(err)
				return
			}
			resp, err := client.Do(req)
			if err == nil {
				_ = resp.Body.Close()
			}
			if (err == nil) != (i%3 != 0) {
				t.Errorf("%s: %v", path, err)
			}
		})
	}
	all.Wait()
	await.Until(t, "no call is left", func() bool {
		text := r.notes.text()
		return strings.HasPrefix(text, "0 0 ") && strings.Contains(text, "answered:20") && r.size() == 0
	})
	if n := len(r.proxy.counts.of); n > 0 {
		t.Errorf("%d queues are counted", n)
	}
	if info, err := r.engine.Get(t.Context(), "q"); err != nil || info.Circuit.Failures > 0 {
		t.Errorf("the receiver is blamed for callers that left: %+v, %v", info.Circuit, err)
	}
}

// A call that waits when the server stops ends with ErrStopping and was not sent. One that was sent ends with its
// answer.
func TestStopping(t *testing.T) {
	r := newRig(t)
	arrived, finish := make(chan struct{}), make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-finish
		_, _ = io.WriteString(w, "done")
	}))
	defer receiver.Close()
	r.put(receiver.URL, func(s *queue.Spec) { s.Rate = twiceAMinute(t) })
	sent := make(chan string, 1)
	get := func() string {
		resp, err := http.Get(r.url + "/x")
		if err != nil {
			return err.Error()
		}
		defer func() { _ = resp.Body.Close() }()
		b, _ := io.ReadAll(resp.Body)
		return fmt.Sprint(resp.StatusCode, " ", string(b))
	}
	go func() { sent <- get() }()
	<-arrived
	waited := make(chan string, 1)
	go func() { waited <- get() }()
	await.Until(t, "another waits", func() bool { return strings.HasPrefix(r.notes.text(), "1 1 ") })
	if got := r.proxy.Calls("q"); got != (Counts{Waiting: 1, Active: 1}) || r.proxy.Calls("other") != (Counts{}) {
		t.Errorf("%+v", got)
	}
	r.stop()
	if got := <-waited; got != "418 " {
		t.Error(got)
	}
	if err := <-r.errs; !errors.Is(err, ErrStopping) {
		t.Errorf("%v", err)
	}
	await.Until(t, "its place is free", func() bool { return r.size() == 1 })
	close(finish)
	if got := <-sent; got != "200 done" {
		t.Errorf("the call that was sent got %q", got)
	}
	if err := <-r.errs; err != nil {
		t.Error(err)
	}
}

// A receiver that lets nobody connect is down, although the calls have missed their turns when they find out.
func TestSilentReceiverOpensTheCircuit(t *testing.T) {
	r := newRig(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts, and a TLS handshake gets no answer
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	r.put("https://"+silent.Addr().String(), func(s *queue.Spec) {
		s.Rate, s.Slack = leaky.PerSecond(1000), unit.Duration(20*time.Millisecond)
		s.Circuit = queue.Circuit{
			Failures: 2, MinProbe: unit.Duration(time.Hour), MaxProbe: unit.Duration(time.Hour),
			Slow: unit.Duration(10 * time.Second),
		}
	})
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/x", http.NoBody)
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Within", "1s")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			_ = resp.Body.Close()
		})
	}
	all.Wait()
	for range 3 {
		var failed *Error
		if err := <-r.errs; !errors.As(err, &failed) || failed.Outcome != Unreachable {
			t.Errorf("%v", err)
		}
	}
	await.Until(t, "the circuit is open", func() bool {
		info, err := r.engine.Get(t.Context(), "q")
		return err == nil && info.Circuit.Open() && info.Size() == 0
	})
}

func twiceAMinute(t *testing.T) leaky.Rate {
	t.Helper()
	rate, err := leaky.ParseRate("2/m")
	if err != nil {
		t.Fatal(err)
	}
	return rate
}

// Errors name what an operator must change.
func TestUnusableQueues(t *testing.T) {
	r := newRig(t)
	r.put("http://127.0.0.1:1/", func(s *queue.Spec) { s.Deliver = nil })
	_, _ = http.Get(r.url + "/x") //nolint:bodyclose // it is refused
	var bad *invalid.Error
	if err := <-r.errs; !errors.As(err, &bad) || bad.Field != "queue" {
		t.Errorf("without a target: %v", err)
	}
}

func TestEarlyBody(t *testing.T) {
	for _, c := range []struct {
		length int64
		retry  bool
		want   int64
	}{
		{-1, false, 0},
		{-1, true, 0},
		{0, true, 0},
		{1, false, 1},
		{earlyBody, false, earlyBody},
		{earlyBody + 1, false, 0},
		{earlyBody + 1, true, earlyBody + 1},
		{keptBody, true, keptBody},
		{keptBody + 1, true, 0},
		{1 << 40, true, 0},
	} {
		if got := EarlyBody(c.length, c.retry); got != c.want {
			t.Errorf("%d, %v: %d, want %d", c.length, c.retry, got, c.want)
		}
	}
}
