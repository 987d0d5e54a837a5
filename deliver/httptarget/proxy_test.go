package httptarget

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/test/keytest"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// far is an address that nobody is at: who reaches a receiver there was brought there by a proxy.
const far = "192.0.2.7"

// through is a proxy that connects to a receiver, whatever it is asked for.
type through struct {
	*httptest.Server
	mu     sync.Mutex
	asked  []string // the addresses
	logins []string
	status []int // of the first answers; then 200
}

func (p *through) seen() (asked, logins []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked), slices.Clone(p.logins)
}

func (p *through) count() int { asked, _ := p.seen(); return len(asked) }

func proxyTo(t *testing.T, to string, secure bool) *through {
	t.Helper()
	p := new(through)
	var tunnels sync.WaitGroup
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		status := http.StatusOK
		p.asked, p.logins = append(p.asked, r.Method+" "+r.RequestURI), append(p.logins, r.Header.Get("Proxy-Authorization"))
		if len(p.status) > 0 {
			status, p.status = p.status[0], p.status[1:]
		}
		p.mu.Unlock()
		if status != http.StatusOK {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "ask "+r.Header.Get("Proxy-Authorization"))
			return
		}
		back, err := net.Dial("tcp", to)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		tunnels.Add(1) // before: nobody waits for a connection that was taken over
		defer tunnels.Done()
		front, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(front, "HTTP/1.1 200 Connection established\r\n\r\n")
		tunnels.Go(func() { _, _ = io.Copy(back, front); _ = back.Close() })
		tunnels.Go(func() { _, _ = io.Copy(front, back); _ = front.Close() })
	}))
	if secure {
		p.StartTLS()
	} else {
		p.Start()
	}
	t.Cleanup(func() { p.Close(); tunnels.Wait() })
	return p
}

func guarded(t *testing.T, allow ...string) *egress.Guard {
	t.Helper()
	g, err := egress.New(allow...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func jobWith(t *testing.T, target map[string]any) *drain.Job {
	t.Helper()
	job := jobFor("", "{}")
	raw, err := json.Marshal(map[string]any{"http": target})
	if err != nil {
		t.Fatal(err)
	}
	job.Spec.Deliver = raw
	return job
}

// A target's proxy is asked for the address of the receiver, whether that is spoken to over TLS or not, and logs in
// with its secret. The connection is kept as any.
func TestProxy(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "PASS"), []byte("h@/:nter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, conns := server(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Host != far || r.Header.Get("Proxy-Authorization") != "" {
			t.Errorf("host %s, proxy's login %q", r.Host, r.Header.Get("Proxy-Authorization"))
		}
	})
	secured, securedConns, trust := secure(t, func(_ http.ResponseWriter, r *http.Request) {})
	for _, c := range []struct {
		scheme, port, to string
		conns            func() int
	}{{"http", "80", s.Listener.Addr().String(), conns}, {
		"https", "443", secured.Listener.Addr().String(), securedConns,
	}} {
		for _, secure := range []bool{false, true} {
			before := c.conns()
			p := proxyTo(t, c.to, secure)
			trust := trust.Clone()
			if secure { // the servers of httptest share their certificate
				trust.RootCAs = p.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
			}
			r := sender(t, Options{
				Egress: guarded(t, "127.0.0.0/8", far), TLS: trust,
				Secrets: secrets.Source{Dir: dir, Allow: keytest.Allow(t, "PASS="+p.URL)},
			})
			for range 2 {
				at := strings.Replace(p.URL, "://", "://us%20er:${secret:PASS}@", 1)
				job := jobWith(t, map[string]any{
					"url": c.scheme + "://" + far, "proxy": at, "tls": map[string]any{"server_name": "example.com"},
				})
				if err := r.Handle(t.Context(), job, opened()); err != nil {
					t.Fatalf("%s by %s: %v", c.scheme, p.URL, err)
				}
			}
			asked, logins := p.seen()
			if n := c.conns() - before; n != 1 || len(asked) != 1 || asked[0] != "CONNECT "+far+":"+c.port ||
				logins[0] != "Basic dXMgZXI6aEAvOm50ZXIy" {
				t.Errorf("%s by %s: %d connections, asked %q, logged in as %q", c.scheme, p.URL, n, asked, logins)
			}
		}
	}
}

// The guard stands before what a proxy is asked for, and before the proxy.
func TestProxyIsGuarded(t *testing.T) {
	s, _ := server(t, func(http.ResponseWriter, *http.Request) { t.Error("reached") })
	p := proxyTo(t, s.Listener.Addr().String(), false)
	for _, c := range []struct {
		url   string
		allow []string
		says  string
	}{
		{"http://" + far, []string{far}, "127.0.0.1 is a loopback address"},
		{"http://169.254.169.254/latest", []string{"127.0.0.0/8"}, "169.254.169.254 is "},
		{"http://10.0.0.1/", []string{"127.0.0.0/8"}, "10.0.0.1 is a private address"},
		{"https://[::ffff:10.0.0.1]/", []string{"127.0.0.0/8"}, "10.0.0.1 is a private address"},
		{"http://localhost/", []string{"127.0.0.2"}, "localhost is at "},
	} {
		at := p.URL
		if c.url == "http://localhost/" { // of which it is not told by its name either
			at = strings.Replace(at, "127.0.0.1", "127.0.0.2", 1)
		}
		g := opened()
		err := sender(t, Options{Egress: guarded(t, c.allow...)}).Handle(
			t.Context(), jobWith(t, map[string]any{"url": c.url, "proxy": at}), g,
		)
		var refused *egress.Refused
		if said := drain.What(err); said.Verdict != queue.Down || !errors.As(err, &refused) ||
			!strings.Contains(err.Error(), c.says) || g.count() != 0 {
			t.Errorf("%s: %v, %v, at the gate %d times", c.url, said, err, g.count())
		}
	}
	if p.count() != 0 {
		t.Errorf("it was asked %d times", p.count())
	}
}

// What a proxy answers tells what is wrong, and nothing of the login. It is no attempt.
func TestProxyRefuses(t *testing.T) {
	s, _ := server(t, func(http.ResponseWriter, *http.Request) {})
	for _, c := range []struct {
		status []int
		says   string
	}{
		{[]int{407}, "the proxy, asked for " + far + ":80, answered 407"},
		{[]int{403}, "answered 403"},
		{[]int{502}, "answered 502"},
	} {
		p := proxyTo(t, s.Listener.Addr().String(), false)
		p.status = c.status
		g := opened()
		at := strings.Replace(p.URL, "://", "://user:hunter2@", 1)
		err := sender(t, Options{Egress: guarded(t, "127.0.0.0/8", far)}).Handle(
			t.Context(), jobWith(t, map[string]any{"url": "http://" + far, "proxy": at}), g,
		)
		if said := drain.What(err); said.Verdict != queue.Down || !strings.Contains(err.Error(), c.says) ||
			strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "dXNlc") || g.count() != 0 {
			t.Errorf("%v: %v, %v", c.status, said, err)
		}
	}
	// One that is no proxy, one that says more than it was asked, and one that says nothing.
	for answer, says := range map[string]string{
		"SSH-2.0-x Basic dXNlcjpodW50ZXIy\r\n":       "gave no answer in HTTP",
		"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n": "sent data before the tunnel was used",
		"": "gave no answer in HTTP",
	} {
		addr := raw(t, nil, func(_ int, c net.Conn) {
			_, _ = c.Read(make([]byte, 4096))
			_, _ = io.WriteString(c, answer)
			_ = c.Close()
		})
		err := sender(t, Options{Egress: guarded(t, "127.0.0.0/8", far)}).Handle(
			t.Context(), jobWith(t, map[string]any{"url": "http://" + far, "proxy": "http://user:hunter2@" + addr}), opened(),
		)
		if said := drain.What(err); said.Verdict != queue.Down || !strings.Contains(err.Error(), says) ||
			strings.Contains(err.Error(), "dXNlc") {
			t.Errorf("%q: %v, %v", answer, said, err)
		}
	}
}

// A proxy of the environment is used by targets that say so, and by no other.
func TestProxyOfTheEnvironment(t *testing.T) {
	s, _ := server(t, func(http.ResponseWriter, *http.Request) {})
	p := proxyTo(t, s.Listener.Addr().String(), false)
	before := fromEnvironment
	t.Cleanup(func() { fromEnvironment = before })
	named := ""
	fromEnvironment = func(r *http.Request) (*url.URL, error) {
		if r.URL.String() != "http://"+far+":80" && r.URL.String() != "http://"+s.Listener.Addr().String() {
			t.Errorf("asked for %s", r.URL)
		}
		if named == "" || r.URL.Host != far+":80" {
			return nil, nil
		}
		return url.Parse(named)
	}
	r := sender(t, Options{Egress: guarded(t, "127.0.0.0/8", far)})
	named = p.URL
	if err := r.Handle(
		t.Context(), jobWith(t, map[string]any{"url": "http://" + far, "proxy": Environment}), opened(),
	); err != nil || p.count() != 1 {
		t.Errorf("%v, asked %d times", err, p.count())
	}
	if err := r.Handle(
		t.Context(), jobWith(t, map[string]any{"url": s.URL, "proxy": Environment}), opened(),
	); err != nil || p.count() != 1 {
		t.Errorf("where the environment names none: %v, asked %d times", err, p.count())
	}
	if err := r.Handle(t.Context(), jobWith(t, map[string]any{"url": s.URL}), opened()); err != nil || p.count() != 1 {
		t.Errorf("without asking for it: %v, asked %d times", err, p.count())
	}
	named = "socks5://user:hunter2@127.0.0.1:1"
	err := sender(t, Options{Egress: guarded(t, "127.0.0.0/8", far)}).Handle(
		t.Context(), jobWith(t, map[string]any{"url": "http://" + far, "proxy": Environment}), opened(),
	)
	if said := drain.What(err); said.Verdict != queue.Down ||
		!strings.Contains(err.Error(), "must be the URL of a proxy") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v, %v", said, err)
	}
}

func TestProxySettings(t *testing.T) {
	for text, says := range map[string]string{
		"proxy.example.com:3128":                    "must be the URL of a proxy",
		"socks5://proxy.example.com":                "must be the URL of a proxy",
		"http://":                                   "must be the URL of a proxy",
		"http://proxy.example.com/path":             "must be the URL of a proxy",
		"http://proxy.example.com?x=1":              "must be the URL of a proxy",
		"http://proxy.example.com:0":                "no valid port",
		"http://${secret:HOST}":                     "must be the URL of a proxy",
		"http://${secret:USER}:x@proxy.example.com": "only the password can",
		"http://u:%zz@proxy.example.com":            "percent-encoded",
		"http://u:hunter2/x@proxy.example.com":      "percent-encoded",
		"http://u:hunter2?x@proxy.example.com":      "percent-encoded",
		"http://u:hunter2#x@proxy.example.com":      "percent-encoded",
		"http://u:${REDIS_PASSWORD}@p.example.com":  "not a reference to a secret",
		"http://2130706433:3128":                    "neither a name nor an address",
		"http://u:hunter2@p.example.com/path":       "must be the URL of a proxy",
	} {
		target := Default()
		target.URL, target.Proxy = "https://api.example.com", text
		err := target.Check("deliver.http")
		var refused *invalid.Error
		if !errors.As(err, &refused) || refused.Field != "deliver.http.proxy" || !strings.Contains(err.Error(), says) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A receiver never sees more connections than it is to.
func TestMaxConnections(t *testing.T) {
	for _, n := range []int{0, -1, MaxMaxConnections + 1} {
		target := Default()
		target.URL, target.MaxConnections = "https://api.example.com", &n
		var refused *invalid.Error
		if err := target.Check("deliver.http"); !errors.As(err, &refused) || refused.Field != "deliver.http.max_connections" {
			t.Errorf("%d: %v", n, err)
		}
	}
	const jobs = 8
	for _, c := range []struct{ most, want int }{{0, jobs}, {2, 2}, {1, 1}} {
		var mu sync.Mutex
		inside, peak := 0, 0
		all := make(chan struct{})
		s, conns := server(t, func(http.ResponseWriter, *http.Request) {
			mu.Lock()
			inside++
			if peak = max(peak, inside); inside == c.want {
				select {
				case <-all:
				default:
					close(all)
				}
			}
			mu.Unlock()
			<-all
			mu.Lock()
			inside--
			mu.Unlock()
		})
		target := map[string]any{"url": s.URL}
		if c.most > 0 {
			target["max_connections"] = c.most
		}
		r := sender(t, Options{Concurrency: jobs})
		var group sync.WaitGroup
		for range jobs {
			group.Go(func() {
				if err := r.Handle(t.Context(), jobWith(t, target), opened()); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if peak != c.want || conns() != c.want {
			t.Errorf("max_connections %d: %d at a time, %d connections, want %d", c.most, peak, conns(), c.want)
		}
	}
}
