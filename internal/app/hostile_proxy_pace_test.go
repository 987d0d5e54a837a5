package app_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/redisq"
)

// counted is a receiver that gives the n-th request the n-th answer, and the last answer to all after that.
type counted struct {
	*rawReceiver

	mu     sync.Mutex
	bodies []string
	at     []time.Time
}

func newCounted(t *testing.T, answers ...string) *counted {
	c := &counted{}
	c.rawReceiver = newRawReceiver(t, func(head string, in *bufio.Reader, conn net.Conn) {
		body, _ := io.ReadAll(readRequest(t, head, in).Body)
		c.mu.Lock()
		n := len(c.bodies)
		c.bodies, c.at = append(c.bodies, string(body)), append(c.at, time.Now())
		c.mu.Unlock()
		_, _ = io.WriteString(conn, answers[min(n, len(answers)-1)])
	})
	return c
}

func (c *counted) got() ([]string, []time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.bodies...), append([]time.Time(nil), c.at...)
}

// tooMany is an answer that refuses, with these fields.
func tooMany(fields ...string) string {
	return said(append(append([]string{"HTTP/1.1 429 Too Many", "Connection: close"}, fields...), "Content-Length: 4",
		"", "slow")...)
}

// A receiver that has had enough stops the queue for everyone, for as long as it says. The caller gets its answer.
func TestHostileProxyThrottled(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		status int
		least  time.Duration // of the stop
	}{
		"seconds": {tooMany("Retry-After: 3600"), 429, 59 * time.Minute},
		"a date": {
			tooMany("Date: Mon, 02 Jan 2006 15:04:05 GMT", "Retry-After: Mon, 02 Jan 2006 16:04:05 GMT"), 429, 59 * time.Minute,
		},
		"fields of limits": {tooMany("X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 3600"), 429, 59 * time.Minute},
		"no time":          {tooMany(), 429, time.Second / 2},
		"a time of 0":      {tooMany("Retry-After: 0"), 429, time.Second / 2},
		"an invalid time":  {tooMany("Retry-After: soon"), 429, time.Second / 2},
		"busy": {
			said("HTTP/1.1 503 Busy", "Retry-After: 3600", "Content-Length: 4", "", "slow"), 503, 59 * time.Minute,
		},
		"used up": {
			said("HTTP/1.1 200 OK", `RateLimit: "a";r=0;t=3600`, "Content-Length: 4", "", "slow"), 200, 59 * time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newCounted(t, c.answer, plainOK)
			g := newGateway(t)
			g.put("q", p.url, `"circuit":{"failures":1}`, "")
			a := g.call("GET", "/proxy/q", "")
			if a.status != c.status || a.text != "slow" {
				t.Errorf("%d %s", a.status, a.text)
			}
			began := time.Now()
			await.Until(t, "the queue is stopped", func() bool {
				info := g.info("q")
				return time.Until(info.Stop.Until) > c.least-time.Since(began)
			})
			if b := g.call("GET", "/proxy/q", "", "Penstock-Wait", "100ms"); b.reason != "no_turn" ||
				b.header.Get("Retry-After") == "" ||
				b.header.Get("Retry-After-Ms") == "" || !strings.Contains(b.text, `"error":{"message":`) {
				t.Errorf("%d %s, %v", b.status, b.text, b.header)
			}
			if bodies, _ := p.got(); len(bodies) != 1 {
				t.Errorf("the receiver got %d requests", len(bodies))
			}
			g.quiet("q")
			if info := g.info("q"); info.Circuit.Open() || c.status != 200 && g.outcome("throttled") != 1 ||
				g.outcome("late") != 1 {
				t.Errorf("circuit %+v, throttled %d, late %d", info.Circuit, g.outcome("throttled"), g.outcome("late"))
			}
		})
	}
}

// A call that wants it waits after a refusal and is sent again, with its body, not before the receiver said.
func TestHostileProxyRetries(t *testing.T) {
	const retry, wait = "Penstock-Retry", "Penstock-Wait"
	large := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		answers []string
		body    io.Reader
		sent    string
		status  int
		times   int
		fields  []string
	}{
		"again": {
			[]string{tooMany("Retry-After: 1"), plainOK},
			strings.NewReader("body"), "body", 200, 2,
			[]string{retry, "throttled"},
		},
		"twice": {
			[]string{tooMany("Retry-After: 1"), tooMany("Retry-After: 1"), plainOK},
			strings.NewReader("body"), "body", 200, 3,
			[]string{retry, "throttled"},
		},
		"no time": {
			[]string{tooMany(), plainOK}, strings.NewReader("body"), "body", 200, 2, []string{retry, "throttled"},
		},
		"no body": {[]string{tooMany("Retry-After: 1"), plainOK}, nil, "", 200, 2, []string{retry, "throttled"}},
		"a large body": {
			[]string{tooMany("Retry-After: 1"), plainOK}, strings.NewReader(large), large, 200, 2, []string{retry, "throttled"},
		},
		"not asked to": {[]string{tooMany("Retry-After: 1"), plainOK}, strings.NewReader("body"), "body", 429, 1, nil},
		"too long": {
			[]string{tooMany("Retry-After: 60"), plainOK},
			strings.NewReader("body"), "body", 429, 1,
			[]string{retry, "throttled", wait, "2s"},
		},
		"another status": {
			[]string{said("HTTP/1.1 500 No", "Content-Length: 0", "", ""), plainOK},
			strings.NewReader("body"), "body", 500, 1,
			[]string{retry, "throttled"},
		},
		"unknown length": {
			[]string{tooMany("Retry-After: 1"), plainOK},
			io.LimitReader(strings.NewReader("body"), 4), "body", 429, 1,
			[]string{retry, "throttled"},
		},
		"over its kept size": {
			[]string{tooMany("Retry-After: 1"), plainOK}, strings.NewReader(large + "x"), large + "x", 429, 1, []string{
				retry,
				"throttled",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			p := newCounted(t, c.answers...)
			g := newGateway(t)
			g.put("q", p.url, "", `"timeout":"1m"`)
			a := g.callWith(t.Context(), "POST", "/proxy/q", c.body, c.fields...)
			if a.status != c.status || a.err != nil || c.status == 429 && a.text != "slow" {
				t.Errorf("%d %.200s, %v", a.status, a.text, a.err)
			}
			bodies, at := p.got()
			if len(bodies) != c.times {
				t.Fatalf("the receiver got %d requests, want %d", len(bodies), c.times)
			}
			for i, body := range bodies {
				if body != c.sent {
					t.Errorf("request %d had %d bytes, want %d", i, len(body), len(c.sent))
				}
				if i > 0 && at[i].Sub(at[i-1]) < 900*time.Millisecond { // a second, from when the answer was read
					t.Errorf("it came again after %v", at[i].Sub(at[i-1]))
				}
			}
			if waited, _ := strconv.Atoi(a.header.Get("Penstock-Waited")); c.times > 1 && waited < 900 {
				t.Errorf("Penstock-Waited is %q", a.header.Get("Penstock-Waited"))
			}
			g.quiet("q")
		})
	}
}

// A receiver that fails again and again is left alone; callers learn when to come back, and one call tries it.
func TestHostileProxyCircuit(t *testing.T) {
	const circuit = `"circuit":{"failures":3,"min_probe":"200ms","max_probe":"1s"}`
	fails := said("HTTP/1.1 500 Oops", "Connection: close", "Content-Length: 0", "", "")
	opens := func(t *testing.T, g *gateway, status int) {
		t.Helper()
		for range 3 {
			if a := g.call("GET", "/proxy/q", "", "Penstock-Wait", "30s"); a.status != status {
				t.Errorf("%d %s, want %d", a.status, a.text, status)
			}
			g.quiet("q")
		}
		await.Until(t, "the circuit opens", func() bool { info := g.info("q"); return info.Circuit.Open() })
	}
	closes := func(t *testing.T, g *gateway) {
		t.Helper()
		if a := g.call("GET", "/proxy/q", "", "Penstock-Wait", "30s"); a.status != 200 {
			t.Errorf("the probe: %d %s", a.status, a.text)
		}
		await.Until(t, "the circuit closes", func() bool { info := g.info("q"); return !info.Circuit.Open() })
		g.quiet("q")
	}
	t.Run("answers", func(t *testing.T) {
		p := newCounted(t, fails, fails, fails, plainOK)
		g := newGateway(t)
		g.put("q", p.url, circuit, "")
		opens(t, g, 500)
		closes(t, g)
		if bodies, _ := p.got(); len(bodies) != 4 {
			t.Errorf("the receiver got %d requests", len(bodies))
		}
	})
	t.Run("silence", func(t *testing.T) {
		p := newCounted(t, "", "", "", plainOK)
		g := newGateway(t)
		g.put("q", p.url, circuit, "")
		opens(t, g, 502)
		closes(t, g)
	})
	t.Run("refused connections", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().String()
		_ = l.Close()
		g := newGateway(t)
		g.put("q", "http://"+addr, circuit, "")
		opens(t, g, 502)
		if g.outcome("unreachable") != 3 {
			t.Errorf("%d are counted as unreachable", g.outcome("unreachable"))
		}
		await.Until(t, "the port is free again", func() bool {
			l, err = net.Listen("tcp", addr)
			return err == nil
		})
		s := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
		go func() { _ = s.Serve(l) }()
		defer s.Close()
		closes(t, g)
	})
}

// observed is a receiver that notes when requests start, and what they cost.
type observed struct {
	*httptest.Server

	mu     sync.Mutex
	began  time.Time
	starts []law.Start
}

func (o *observed) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	now := time.Now()
	cost, _ := strconv.ParseInt(r.Header.Get("X-Cost"), 10, 64)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.starts = append(o.starts, law.Start{At: now.Sub(o.began), Cost: cost})
}

// judge holds the requests to the law of a rate. A receiver on a busy machine may notice several at once.
func (o *observed) judge(t *testing.T, l law.Law, want, atOnce int) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.starts) != want {
		t.Errorf("the receiver got %d requests, want %d", len(o.starts), want)
	}
	l.Delta = time.Duration(atOnce) * l.Rate.Interval()
	if v := l.Judge(o.starts); !v.Held {
		t.Errorf("the window law needs %v: %+v", v.Needed, v.Worst)
	}
}

// Callers of different lanes, costs and priorities, at two ingresses on one Redis, keep the pace together at the
// receiver, and each is answered.
func TestHostileProxyLaw(t *testing.T) {
	const callers, each = 6, 8
	o := &observed{began: time.Now()}
	o.Server = httptest.NewServer(o)
	defer o.Close()
	redis := redistest.New(t, redistest.Options{})
	var gateways []*gateway
	for range 2 {
		e, err := redisq.OpenClient(t.Context(), redis.Client(), redisq.Options{Init: true, Patience: redistest.Patience})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		gateways = append(gateways, gatewayOver(t, e))
	}
	gateways[0].put("q", o.URL, `"rate":"50/s","slack":"50ms"`, "")
	var all sync.WaitGroup
	cost := 0
	for c := range callers {
		cost += each * (1 + c%3)
		all.Go(func() {
			for range each {
				a := gateways[c%2].call("POST", "/proxy/q", "{}", "Penstock-Cost", fmt.Sprint(1+c%3), "X-Cost", fmt.Sprint(1+c%3),
					"Penstock-Lane", fmt.Sprint("lane", c%2), "Penstock-Priority", fmt.Sprint(c%2), "Penstock-Wait", "1m")
				if a.status != 200 {
					t.Errorf("caller %d: %d %s, %v", c, a.status, a.text, a.err)
				}
			}
		})
	}
	all.Wait()
	o.judge(t, law.Law{Rate: leaky.PerSecond(50), Slack: 50 * time.Millisecond, MaxCost: 3}, callers*each, callers*3)
	for _, g := range gateways {
		g.quiet("q")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	last, first := o.starts[len(o.starts)-1], o.starts[0]
	if took, least := last.At-first.At, time.Duration(cost-3*callers)*20*time.Millisecond; took < least {
		t.Errorf("a cost of %d at 50/s took %v, want %v", cost, took, least)
	}
}

// A receiver whose first handshakes are slow has calls miss their turns. They take others, never early, and never more.
func TestHostileProxySlowHandshakes(t *testing.T) {
	const callers = 10
	o := &observed{began: time.Now()}
	o.Server = httptest.NewUnstartedServer(o)
	o.Listener = lateListener{o.Listener}
	o.StartTLS()
	defer o.Close()
	roots := x509.NewCertPool()
	roots.AddCert(o.Certificate())
	g := newGateway(t, func(o *gatewayOptions) {
		o.Deliver.TLS = &tls.Config{
			RootCAs:    roots,
			MinVersion: tls.VersionTLS12,
		}
	})
	g.put("q", o.URL, `"rate":"20/s","slack":"5ms"`, "")
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			if a := g.call("GET", "/proxy/q", "", "Penstock-Wait", "1m", "X-Cost", "1"); a.status != 200 {
				t.Errorf("%d %s, %v", a.status, a.text, a.err)
			}
		})
	}
	all.Wait()
	o.judge(t, law.Law{Rate: leaky.PerSecond(20), Slack: 5 * time.Millisecond}, callers, 2)
	g.quiet("q")
}

// lateListener's connections are silent at first.
type lateListener struct{ net.Listener }

func (l lateListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &lateConn{Conn: conn}, nil
}

type lateConn struct {
	net.Conn
	once sync.Once
}

func (c *lateConn) Read(b []byte) (int, error) {
	c.once.Do(func() { time.Sleep(300 * time.Millisecond) })
	return c.Conn.Read(b)
}
