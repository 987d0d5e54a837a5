package sink

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/await"
)

// started starts a sink, and returns the requests that it showed.
func started(t *testing.T, o Options) (s *Sink, url string, shown func() []Request, stop func()) {
	t.Helper()
	s, addr, shown, stop := startedWith(t, (*Sink).Serve, o)
	return s, "http://" + addr, shown, stop
}

// startedWith is started with one of a Sink's ways to serve.
func startedWith(
	t *testing.T, serve func(*Sink, context.Context, net.Listener) error, o Options,
) (s *Sink, addr string, shown func() []Request, stop func()) {
	t.Helper()
	var mu sync.Mutex
	var all []Request
	o.Shown = func(q Request) { mu.Lock(); defer mu.Unlock(); all = append(all, q) }
	if o.Status == 0 {
		o.Status = 503
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- serve(s, ctx, ln) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return s, ln.Addr().String(), func() []Request { mu.Lock(); defer mu.Unlock(); return all }, stop
}

// answer returns the status of a request.
type answer struct {
	status     int
	retryAfter string
}

// post sends one, over a connection of its own.
func post(t *testing.T, url, body string, patience time.Duration) (answer, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/send?a=1", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Penstock-Id", "welcome-17")
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	_ = resp.Body.Close()
	return answer{resp.StatusCode, resp.Header.Get("Retry-After")}, nil
}

// turns yields what a die shows, one after the other, and then the last one.
func turns(faces ...float64) func() float64 {
	var mu sync.Mutex
	return func() float64 {
		mu.Lock()
		defer mu.Unlock()
		f := faces[0]
		if len(faces) > 1 {
			faces = faces[1:]
		}
		return f
	}
}

func TestSinkShowsWhatArrives(t *testing.T) {
	s, url, shown, _ := started(t, Options{})
	if resp, err := post(t, url, `{"to": "a@example.com"}`, time.Minute); err != nil || resp.status != http.StatusOK {
		t.Fatal(resp, err)
	}
	if resp, err := post(t, url, strings.Repeat("x", 1<<20), time.Minute); err != nil || resp.status != http.StatusOK {
		t.Fatal(resp, err)
	}
	all := shown()
	q := all[0]
	if q.Method != http.MethodPost || q.Path != "/v1/send?a=1" || q.ID != "welcome-17" ||
		q.Body != `{"to": "a@example.com"}` || q.Bytes != 23 || q.Answer != "200" {
		t.Errorf("it showed %+v", q)
	}
	if q := all[1]; len(q.Body) != maxShownBody || q.Bytes != 1<<20 {
		t.Errorf("of a long one it showed %d of %d bytes", len(q.Body), q.Bytes)
	}
	if sum := s.Totals(); sum.Requests != 2 || sum.Answers["200"] != 2 {
		t.Errorf("totals %+v", sum)
	}
}

func TestSinkFailsAsItIsTold(t *testing.T) {
	// Two of the die for each request: its connection, its fate.
	s, url, _, _ := started(t, Options{
		Fail: 0.1, RetryAfter: 2500 * time.Millisecond, Drop: 0.1, Refuse: 0.1, Latency: 30 * time.Millisecond,
		random: turns(0.5, 0.15, 0.5, 0.05, 0.05, 0.5, 0.25),
	})
	begun := time.Now()
	resp, err := post(t, url, "x", time.Minute)
	if err != nil || resp.status != http.StatusServiceUnavailable || resp.retryAfter != "3" ||
		time.Since(begun) < 30*time.Millisecond {
		t.Errorf("one that fails: %v, %v after %v", resp, err, time.Since(begun))
	}
	if resp, err := post(t, url, "x", time.Minute); err == nil || !errors.Is(err, io.EOF) {
		t.Errorf("one that is dropped: %v, %v", resp, err)
	}
	if resp, err := post(t, url, "x", time.Minute); err == nil ||
		!errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, io.EOF) {
		t.Errorf("a connection that is refused: %v, %v", resp, err)
	}
	if resp, err := post(t, url, "x", time.Minute); err != nil || resp.status != http.StatusOK {
		t.Errorf("one that goes well: %v, %v", resp, err)
	}
	if sum := s.Totals(); sum.Requests != 3 || sum.Refused != 1 || sum.Answers["503"] != 1 || sum.Answers[Dropped] != 1 ||
		sum.Answers["200"] != 1 {
		t.Errorf("totals %+v", sum)
	}
}

// What hangs does so until the client or the sink ends, and holds nothing up then.
func TestSinkHangs(t *testing.T) {
	s, url, _, stop := started(t, Options{Hang: 1})
	if resp, err := post(t, url, "x", 100*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it answered %v, %v", resp, err)
	}
	answered := make(chan error, 1)
	go func() { _, err := post(t, url, "x", time.Minute); answered <- err }()
	await.Until(t, "both hang", func() bool { return s.Totals().Answers[Hung] == 2 })
	stop()
	if err := <-answered; err == nil {
		t.Error("one that hangs was answered when the sink ended")
	}
}

func TestSinkRefusesWhatCannotBe(t *testing.T) {
	for _, o := range []Options{
		{Fail: -0.1}, {Fail: 1.1}, {Fail: 0.5, Hang: 0.4, Drop: 0.2}, {Status: 99}, {Status: 600},
	} {
		if o.Status == 0 {
			o.Status = 503
		}
		if _, err := New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

func TestMostInASecond(t *testing.T) {
	c := newCounts()
	at := time.Now()
	for _, ms := range []int{0, 100, 999, 1000, 1050, 1100, 3000} {
		c.arrived(at.Add(time.Duration(ms) * time.Millisecond))
	}
	if sum := c.totals(); sum.MostInASecond != 4 || sum.Requests != 7 || sum.For != 3*time.Second {
		t.Errorf("totals %+v", sum)
	}
}
