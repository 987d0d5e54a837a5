package httptarget

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gate is a drain.Gate that a test holds.
type gate struct {
	closes time.Time
	wait   func(call int) error // nil: always open

	mu    sync.Mutex
	calls int
}

func opened() *gate { return &gate{closes: time.Now().Add(time.Hour)} }

// late refuses from the given call on.
func late(from int) *gate {
	g := opened()
	g.wait = func(call int) error {
		if call >= from {
			return drain.ErrLate
		}
		return nil
	}
	return g
}

func (g *gate) Wait(context.Context) error {
	g.mu.Lock()
	g.calls++
	call := g.calls
	g.mu.Unlock()
	if g.wait == nil {
		return nil
	}
	return g.wait(call)
}

func (g *gate) Closes() time.Time { return g.closes }

func (g *gate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls
}

func jobFor(url string, payload string) *drain.Job {
	j := &drain.Job{Reservation: queue.Reservation{
		Job:     queue.Job{Queue: "q", ID: "job-1", Payload: []byte(payload), ContentType: "application/json"},
		Attempt: 3, Revision: 1,
	}}
	j.Spec = &queue.Spec{Deliver: config(url, 10*time.Second)}
	return j
}

func config(url string, timeout time.Duration) json.RawMessage {
	raw, err := json.Marshal(map[string]any{"http": map[string]any{"url": url, "timeout": timeout.String()}})
	if err != nil {
		panic(err)
	}
	return raw
}

// router stands in for deliver.Router: it reads the setting of a job's queue.
type router struct{ *Sender }

func (r router) Handle(ctx context.Context, job *drain.Job, g drain.Gate) error {
	var named struct {
		HTTP json.RawMessage `json:"http"`
	}
	if err := json.Unmarshal(job.Spec.Deliver, &named); err != nil {
		return err
	}
	target := Default()
	if err := setting.Decode(named.HTTP, "deliver.http", target); err != nil {
		return err
	}
	if err := target.Check("deliver.http"); err != nil {
		return err
	}
	return r.Deliver(ctx, job, g, target)
}

// sender returns a Sender that may reach this machine.
func sender(t *testing.T, o Options) router {
	t.Helper()
	if o.Egress == nil {
		o.Egress = local()
	}
	r := router{New(o)}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// piped is a Sender whose connections end at serve, without a network: in a bubble timeouts pass in its time.
func piped(t *testing.T, serve func(net.Conn)) router {
	t.Helper()
	var served sync.WaitGroup
	t.Cleanup(served.Wait) // when the Sender is closed
	r := sender(t, Options{})
	r.pools.dialer.connect = func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		served.Go(func() { defer there.Close(); serve(there) })
		return here, nil
	}
	return r
}

// nowhere is where nobody listens, and the address of what is piped.
const nowhere = "127.0.0.1:1"

func local() *egress.Guard {
	g, err := egress.New(egress.Loopback...)
	if err != nil {
		panic(err)
	}
	return g
}

// server is an HTTP server that counts its connections.
func server(t *testing.T, h http.HandlerFunc) (*httptest.Server, func() int) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	count := counting(s)
	s.Start()
	t.Cleanup(s.Close)
	return s, count
}

func counting(s *httptest.Server) func() int {
	var mu sync.Mutex
	n := 0
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			mu.Lock()
			n++
			mu.Unlock()
		}
	}
	return func() int { mu.Lock(); defer mu.Unlock(); return n }
}

func secure(t *testing.T, h http.HandlerFunc) (*httptest.Server, func() int, *tls.Config) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	count := counting(s)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, count, s.Client().Transport.(*http.Transport).TLSClientConfig
}

// raw is a listener that hands each connection to a func of the test and ends with it.
func raw(t *testing.T, wrap func(net.Conn) net.Conn, serve func(n int, c net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	all.Go(func() {
		for n := 1; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if wrap != nil {
				c = wrap(c)
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			all.Go(func() { serve(n, c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return l.Addr().String()
}

// readAll reads what comes until the other side ends.
func readAll(c net.Conn) (string, error) {
	b, err := io.ReadAll(c)
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return string(b), err
}

func wantErr(t *testing.T, err error, is error, says string) {
	t.Helper()
	if err == nil || is != nil && !errors.Is(err, is) || is == nil && errors.Is(err, drain.ErrLate) ||
		says != "" && !strings.Contains(err.Error(), says) {
		t.Errorf("error %v, want %v saying %q", err, is, says)
	}
}
