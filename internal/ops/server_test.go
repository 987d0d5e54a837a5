package ops_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/ops"
)

var hello = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		w.WriteHeader(http.StatusRequestTimeout)
		return
	}
	_, _ = io.WriteString(w, "hello")
})

// running starts a server, and stops it at the end of the test.
func running(t *testing.T, h http.Handler, o ops.ServerOptions) (*ops.Server, func() error) {
	t.Helper()
	return runningAt(t, ops.Listen{Addr: "127.0.0.1:0"}, h, o)
}

func runningAt(t *testing.T, l ops.Listen, h http.Handler, o ops.ServerOptions) (*ops.Server, func() error) {
	t.Helper()
	s, err := ops.NewServer(l, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, h) }()
	var result error
	stopped := false
	stop := func() error {
		if !stopped {
			stopped = true
			cancel()
			result = <-ended
		}
		return result
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("stopped with %v", err)
		}
	})
	return s, stop
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A thousand clients that send headers byte by byte are disconnected and do not block others.
func TestSlowHeaders(t *testing.T) {
	s, _ := running(t, hello, ops.ServerOptions{HeaderTimeout: 2 * time.Second})
	const n = 1000
	var slow []net.Conn
	for range n {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "); err != nil {
			t.Fatal(err)
		}
		slow = append(slow, c)
	}
	if got := get(t, s.URL()); got != "hello" {
		t.Errorf("beside slow clients: %q", got)
	}
	// Each client keeps sending, and is disconnected anyway.
	for _, c := range slow {
		_, _ = io.WriteString(c, "a") // it may be cut off already
	}
	for i, c := range slow {
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		var timeout net.Error
		if _, err := io.ReadAll(c); errors.As(err, &timeout) && timeout.Timeout() {
			t.Fatalf("connection %d was not cut off", i)
		}
	}
}

// The read timeout ends an endless body, and the client gets an answer.
func TestEndlessBody(t *testing.T) {
	s, _ := running(t, hello, ops.ServerOptions{ReadTimeout: 3 * time.Second}) // the header has to come within it
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(
		c, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n",
	); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("status %d", resp.StatusCode)
	}
}

func TestLargeHeaders(t *testing.T) {
	s, _ := running(t, hello, ops.ServerOptions{MaxHeaderBytes: 8 << 10})
	resp, err := http.Get(s.URL() + "/" + strings.Repeat("a", 100<<10))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// At most MaxConnections are served; the next one is served when another ends.
func TestMaxConnections(t *testing.T) {
	s, _ := running(t, hello, ops.ServerOptions{MaxConnections: 2})
	ask := func() (net.Conn, *bufio.Reader) {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		return c, bufio.NewReader(c)
	}
	answered := func(c net.Conn, r *bufio.Reader, wait time.Duration) error {
		_ = c.SetReadDeadline(time.Now().Add(wait))
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	first, r1 := ask()
	second, r2 := ask()
	if err := errors.Join(answered(first, r1, 20*time.Second), answered(second, r2, 20*time.Second)); err != nil {
		t.Fatal(err)
	}
	third, r3 := ask()
	if err := answered(third, r3, 100*time.Millisecond); err == nil {
		t.Error("a third connection was served beside two")
	}
	_ = first.Close()
	if err := answered(third, r3, 20*time.Second); err != nil {
		t.Errorf("when one had ended: %v", err)
	}
}

// Stop waits for a request that finishes, and closes one that does not.
func TestStop(t *testing.T) {
	entered, leave := make(chan bool, 2), make(chan bool)
	s, stop := running(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entered <- true
		select {
		case <-leave:
			_, _ = io.WriteString(w, "done")
		case <-r.Context().Done(): // cut off
		}
	}), ops.ServerOptions{Grace: time.Second})
	answers := make(chan string, 2)
	for range 2 {
		go func() {
			resp, err := http.Get(s.URL())
			if err != nil {
				answers <- "cut off"
				return
			}
			defer resp.Body.Close()
			b, _ := io.ReadAll(resp.Body)
			answers <- string(b)
		}()
		<-entered
	}
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	<-s.Stopping().Done()
	leave <- true
	got := map[string]int{<-answers: 1}
	got[<-answers]++
	if err := <-stopped; err != nil || got["done"] != 1 || got["cut off"] != 1 {
		t.Errorf("answers %v, stopped with %v", got, err)
	}
}

func TestListen(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:80", "example.com:80"} {
		_, err := ops.NewServer(ops.Listen{Addr: addr}, ops.ServerOptions{})
		if !errors.Is(err, ops.ErrInsecure) || !strings.Contains(fmt.Sprint(err), "--tls-cert") ||
			!strings.Contains(err.Error(), "--insecure") {
			t.Errorf("%s: %v", addr, err)
		}
	}
	for _, l := range []ops.Listen{{Addr: "localhost:0"}, {Addr: "127.0.0.2:0"}, {Addr: "0.0.0.0:0", Insecure: true}} {
		s, err := ops.NewServer(l, ops.ServerOptions{})
		if err != nil {
			t.Errorf("%+v: %v", l, err)
			continue
		}
		if l.Insecure && !strings.HasPrefix(s.URL(), "http://localhost:") {
			t.Errorf("%+v: a client would not find %s", l, s.URL())
		}
		_, err = ops.NewServer(ops.Listen{Addr: s.Addr().String(), Insecure: true}, ops.ServerOptions{})
		for _, says := range []string{"--listen " + s.Addr().String(), "another program", "penstock up", "another port"} {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("an address that is taken: %v, without %q", err, says)
			}
		}
		if err := s.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	}
}

func TestNegativeLimit(t *testing.T) {
	if _, err := ops.NewServer(ops.Listen{Addr: "127.0.0.1:0"}, ops.ServerOptions{MaxConnections: -1}); err == nil ||
		!strings.Contains(err.Error(), "--max-connections -1") {
		t.Errorf("%v", err)
	}
}

func TestRunAll(t *testing.T) {
	broken := errors.New("broken")
	waits := func(ctx context.Context) error { <-ctx.Done(); return nil }
	if err := ops.RunAll(
		t.Context(), waits, func(context.Context) error { return broken }, waits,
	); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if err := ops.RunAll(t.Context(), waits, func(context.Context) error { return nil }); err != nil {
		t.Errorf("got %v", err)
	}
}

// under runs until over has ended, and neither runs without the other.
func TestRunOver(t *testing.T) {
	broken := errors.New("broken")
	ctx, stop := context.WithCancel(t.Context())
	lower, ended := make(chan struct{}), false
	over := func(ctx context.Context) error {
		<-lower
		stop()
		<-ctx.Done()
		ended = true
		return nil
	}
	if err := ops.RunOver(ctx, over, func(ctx context.Context) error {
		close(lower)
		<-ctx.Done()
		if !ended {
			t.Error("it was stopped before what stands on it had ended")
		}
		return broken
	}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	waits := func(ctx context.Context) error { <-ctx.Done(); return nil }
	if err := ops.RunOver(t.Context(), waits, func(context.Context) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if err := ops.RunOver(t.Context(), func(context.Context) error { return broken }, waits); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestHealth(t *testing.T) {
	var lacks, away error
	s, _ := running(t, ops.Health(func(context.Context) (error, error) { return lacks, away }, hello), ops.ServerOptions{})
	if got := get(t, s.URL()+"/readyz"); got != "{\"status\":\"ready\"}\n" {
		t.Errorf("ready: %s", got)
	}
	lacks = errors.New("the overflow is away")
	if got := get(t, s.URL()+"/readyz"); got != "{\"status\":\"degraded\",\"detail\":\"the overflow is away\"}\n" {
		t.Errorf("degraded: %s", got)
	}
	away = errors.New("the store is away")
	if got := get(t, s.URL()+"/readyz"); got != "{\"status\":\"not_ready\",\"detail\":\"the store is away\"}\n" {
		t.Errorf("not ready: %s", got)
	}
	if got := get(t, s.URL()+"/healthz"); got != "{\"status\":\"ok\"}\n" {
		t.Errorf("healthy: %s", got)
	}
	if got := get(t, s.URL()+"/metrics"); got != "hello" {
		t.Errorf("metrics: %s", got)
	}
}
