package app_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/unit"
)

// gateway is an ingress with a proxy.
type gateway struct {
	t      *testing.T
	engine queue.Engine
	reg    *prometheus.Registry
	url    string
	addr   string
	token  string // sent with each call, if not empty
	// stop stops the ingress, and waits until it has ended.
	stop func()
}

// gatewayOptions are what a test changes.
type gatewayOptions struct {
	app.IngressOptions
	Deliver deliver.Options
	Owners  *auth.Owners
}

func newGateway(t *testing.T, change ...func(*gatewayOptions)) *gateway {
	t.Helper()
	return newGatewayWith(t, func(queue.Engine) []func(*gatewayOptions) { return change })
}

// newGatewayWith is newGateway with options that depend on the engine.
func newGatewayWith(t *testing.T, changes func(queue.Engine) []func(*gatewayOptions)) *gateway {
	t.Helper()
	e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return gatewayOver(t, e, changes(e)...)
}

func gatewayOver(t *testing.T, e queue.Engine, change ...func(*gatewayOptions)) *gateway {
	t.Helper()
	o := gatewayOptions{Deliver: deliver.Options{Egress: loopback(t)}}
	o.Listen, o.Registry = ops.Listen{Addr: "127.0.0.1:0"}, app.NewRegistry()
	for _, c := range change {
		c(&o)
	}
	if o.Owners == nil {
		o.Owners = auth.NewOwners(e, nil)
	}
	o.Router, o.IngressOptions.Owners = app.CallRouter(o.Deliver, o.Owners), o.Owners
	in, err := app.NewIngress(e, o.IngressOptions)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }()
	g := &gateway{t: t, engine: e, reg: o.Registry, url: in.URL(), addr: in.Addr().String()}
	g.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(g.stop)
	return g
}

// put makes a proxied queue; more is JSON for its spec, and http for its target.
func (g *gateway) put(name, target, more, http string) {
	g.t.Helper()
	spec := queue.Spec{Name: name, Pull: true, Slack: unit.Duration(10 * time.Second)}
	if err := json.Unmarshal([]byte(`{"rate":"unlimited"}`), &spec); err != nil {
		g.t.Fatal(err)
	}
	if more != "" {
		if err := json.Unmarshal([]byte("{"+more+"}"), &spec); err != nil {
			g.t.Fatal(err)
		}
	}
	if http != "" {
		http = "," + http
	}
	spec.Deliver = fmt.Appendf(nil, `{"http":{"url":%q%s}}`, target, http)
	if _, err := g.engine.Put(g.t.Context(), spec, queue.AnyRevision); err != nil {
		g.t.Fatal(err)
	}
}

// reply is the answer to a call.
type reply struct {
	status  int
	header  http.Header
	trailer http.Header
	text    string
	reason  string // of a refusal
	err     error  // of reading the body
}

// call sends a call with these headers: name, value, ...
func (g *gateway) call(method, path, body string, headers ...string) reply {
	g.t.Helper()
	return g.callWith(g.t.Context(), method, path, strings.NewReader(body), headers...)
}

func (g *gateway) callWith(ctx context.Context, method, path string, body io.Reader, headers ...string) (a reply) {
	g.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, g.url+path, body)
	if err != nil {
		g.t.Error(err)
		return a
	}
	if g.token != "" {
		r.Header.Set("Authorization", "Bearer "+g.token)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header[headers[i]] = append(r.Header[headers[i]], headers[i+1])
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return replyOf(resp, b, err)
}

func replyOf(resp *http.Response, body []byte, err error) reply {
	a := reply{status: resp.StatusCode, header: resp.Header, trailer: resp.Trailer, text: string(body), err: err}
	var p struct{ Error, Reason any }
	if json.Unmarshal(body, &p) == nil && resp.Header.Get("Content-Type") == "application/problem+json" {
		a.reason = fmt.Sprint(p.Reason)
		if p.Reason == nil {
			a.reason = fmt.Sprint(p.Error)
		}
	}
	return a
}

// raw sends text as it is, and reads the answer.
func (g *gateway) raw(text string) reply {
	g.t.Helper()
	conn := g.dial()
	defer conn.Close()
	go func() { _, _ = io.WriteString(conn, text) }()
	return readReply(conn, text)
}

func (g *gateway) dial() net.Conn {
	g.t.Helper()
	conn, err := net.Dial("tcp", g.addr)
	if err != nil {
		g.t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	return conn
}

func readReply(conn net.Conn, text string) reply {
	method, _, _ := strings.Cut(text, " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return replyOf(resp, b, err)
}

// metric returns the value of a metric, summed over its labels that contain with.
func (g *gateway) metric(name, with string) (sum float64) {
	g.t.Helper()
	families, err := g.reg.Gather()
	if err != nil {
		g.t.Error(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if strings.Contains(fmt.Sprint(m.GetLabel()), with) {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// outcome returns how many calls ended in a way.
func (g *gateway) outcome(outcome string) int {
	return int(g.metric("penstock_proxy_calls_total", `"`+outcome+`"`))
}

// waits waits until so many calls wait for their turns.
func (g *gateway) waits(n int) {
	g.t.Helper()
	await.Until(g.t, fmt.Sprint(n, " calls wait"), func() bool { return int(g.metric("penstock_proxy_waiting", "")) == n })
}

// quiet waits until no call is left, in the metrics and in the queue.
func (g *gateway) quiet(name string) {
	g.t.Helper()
	await.Until(g.t, "no call is left", func() bool {
		info, err := g.engine.Get(context.WithoutCancel(g.t.Context()), name)
		return err == nil && info.Size() == 0 && g.metric("penstock_proxy_waiting", "") == 0 &&
			g.metric("penstock_proxy_active", "") == 0
	})
}

func (g *gateway) info(name string) queue.Info {
	g.t.Helper()
	info, err := g.engine.Get(context.WithoutCancel(g.t.Context()), name)
	if err != nil {
		g.t.Fatal(err)
	}
	return info
}

// rawReceiver is a receiver that a test writes by hand, one request to a connection.
type rawReceiver struct {
	t   *testing.T
	url string

	mu    sync.Mutex
	heads []string // of the requests
}

// newRawReceiver serves each request by a function, which gets its head and the connection behind it.
func newRawReceiver(t *testing.T, serve func(head string, in *bufio.Reader, conn net.Conn)) *rawReceiver {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &rawReceiver{t: t, url: "http://" + l.Addr().String()}
	var all sync.WaitGroup
	open := map[net.Conn]bool{}
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			open[conn] = true
			p.mu.Unlock()
			all.Go(func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				if head := p.head(in); head != "" {
					serve(head, in, conn)
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		for conn := range open {
			_ = conn.Close()
		}
		p.mu.Unlock()
		all.Wait()
	})
	return p
}

// head reads the head of a request, and notes it.
func (p *rawReceiver) head(in *bufio.Reader) string {
	var head strings.Builder
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			if head.Len() > 0 && !errors.Is(err, net.ErrClosed) {
				p.t.Logf("a part of a request: %q, %v", head.String(), err)
			}
			return ""
		}
		head.WriteString(line)
		if line == "\r\n" {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.heads = append(p.heads, head.String())
			return head.String()
		}
	}
}

// seen returns the heads of the requests so far.
func (p *rawReceiver) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.heads...)
}

// fields returns the headers of a request's head.
func fields(t *testing.T, head string) http.Header {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head)))
	if err != nil {
		t.Fatal(err)
	}
	return r.Header
}

const plainOK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// fine is a receiver that answers all requests without a body alike.
func fine(t *testing.T) *rawReceiver {
	return newRawReceiver(t, func(_ string, _ *bufio.Reader, conn net.Conn) { _, _ = io.WriteString(conn, plainOK) })
}

// readRequest returns the request of a head, with the body behind it.
func readRequest(t *testing.T, head string, in *bufio.Reader) *http.Request {
	r, err := http.ReadRequest(bufio.NewReader(io.MultiReader(strings.NewReader(head), in)))
	if err != nil {
		t.Error(err)
		return &http.Request{Body: http.NoBody}
	}
	return r
}
