package httptarget

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/penstock/penstock/drain"
)

// What the receiver gets.
func TestRequest(t *testing.T) {
	type got struct {
		r    *http.Request
		body string
	}
	arrived := make(chan got, 1)
	s, _ := server(t, func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		arrived <- got{r, string(b)}
	})
	r := sender(t, Options{})
	for _, payload := range []string{`{"to": "a@example.com"}`, "", strings.Repeat("x", 1<<20)} {
		job := jobFor(s.URL+"/send?x=1", payload)
		job.ContentType = "text/plain"
		job.Headers = map[string]string{
			"x-both": "job", "x-job": "1", "penstock-id": "forged", "idempotency-key": "forged", "webhook-id": "forged",
			"Webhook-Signature": "v1,forged", "WEBHOOK-TIMESTAMP": "1",
		}
		job.Spec.Deliver = []byte(
			`{"http": {"url": "` + s.URL + `/send?x=1", "headers": {"X-Both": "target", "Authorization": "Bearer s3cret"}}}`,
		)
		g := opened()
		if err := r.Handle(t.Context(), job, g); err != nil {
			t.Fatal(err)
		}
		a := <-arrived
		if a.r.Method != http.MethodPost || a.r.URL.String() != "/send?x=1" || a.r.Proto != "HTTP/1.1" || a.body != payload {
			t.Errorf("%s %s %s with %d bytes", a.r.Method, a.r.URL, a.r.Proto, len(a.body))
		}
		if a.r.ContentLength != int64(len(payload)) || len(a.r.TransferEncoding) != 0 {
			t.Errorf("length %d, encoding %v", a.r.ContentLength, a.r.TransferEncoding)
		}
		for name, want := range map[string]string{
			"Content-Type": "text/plain", "Penstock-Id": "job-1", "Penstock-Queue": "q", "Penstock-Attempt": "3",
			"Idempotency-Key": "job-1", "X-Both": "target", "X-Job": "1", "Authorization": "Bearer s3cret",
			"User-Agent": "Penstock",
		} {
			if v := a.r.Header.Values(name); len(v) != 1 || v[0] != want {
				t.Errorf("%s: %q, want %q", name, v, want)
			}
		}
		for _, name := range []string{"Webhook-Id", "Webhook-Signature", "Webhook-Timestamp"} { // nothing is signed here
			if v := a.r.Header.Values(name); len(v) != 0 {
				t.Errorf("a job has set %s: %q", name, v)
			}
		}
		if a.r.Header.Get("Accept-Encoding") != "" {
			t.Error("asked for a compressed answer")
		}
		if g.count() != 1 {
			t.Errorf("%d times at the gate", g.count())
		}
	}
}

func TestAnswers(t *testing.T) {
	long := strings.Repeat("ä", 5000)
	for _, c := range []struct {
		status int
		body   string
		want   string // empty: delivered
	}{
		{200, "ok", ""},
		{201, "", ""},
		{202, long, ""},
		{204, "", ""},
		{299, "", ""},
		{300, "", "the receiver answered 300 (redirects are not followed)"},
		{304, "", "the receiver answered 304 (redirects are not followed)"},
		{402, "no such\nuser\x00\x1b[31m", "the receiver answered 402: no such user [31m"},
		{404, "", "the receiver answered 404"},
		{429, "slow down", "the receiver answered 429: slow down"},
		{500, long, "the receiver answered 500: " + strings.Repeat("ä", 100)},
		{502, "x" + long, "the receiver answered 502: x" + strings.Repeat("ä", 99)},
		{503, "\xff\xfe", "the receiver answered 503"},
		{600, "odd", "the receiver answered 600: odd"},
	} {
		t.Run(fmt.Sprint(c.status), func(t *testing.T) {
			s, conns := server(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			r := sender(t, Options{})
			for range 2 {
				err := r.Handle(t.Context(), jobFor(s.URL, "{}"), opened())
				if got := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && got != c.want {
					t.Errorf("%q, want %q", got, c.want)
				}
				if drain.IsPermanent(err) || errors.Is(err, drain.ErrLate) || err != nil && !utf8.ValidString(err.Error()) {
					t.Errorf("%v is not a plain error", err)
				}
			}
			if conns() != 1 {
				t.Errorf("%d connections for 2 deliveries", conns())
			}
		})
	}
}

func TestRedirect(t *testing.T) {
	var followed atomic.Int64
	s, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/there" {
			followed.Add(1)
			return
		}
		http.Redirect(w, r, "/there", http.StatusTemporaryRedirect)
	})
	err := sender(t, Options{}).Handle(t.Context(), jobFor(s.URL, "{}"), opened())
	wantErr(t, err, nil, "answered 307 (redirects are not followed)")
	if followed.Load() != 0 {
		t.Error("followed")
	}
}

// Connections are kept and used again: never more than there are handlers.
func TestReuse(t *testing.T) {
	s, conns, config := secure(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Proto != "HTTP/1.1" {
			t.Errorf("spoke %s", r.Proto)
		}
	})
	const n = 8
	r := sender(t, Options{TLS: config, Concurrency: n})
	for range 20 {
		errs := make(chan error)
		for range n {
			go func() { errs <- r.Handle(t.Context(), jobFor(s.URL, "{}"), opened()) }()
		}
		for range n {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
	}
	if c := conns(); c > n {
		t.Errorf("%d connections for 160 deliveries, %d at a time", c, n)
	}
}

// A target without a proxy does not look for one in the environment.
func TestNoProxy(t *testing.T) {
	before := fromEnvironment
	defer func() { fromEnvironment = before }()
	fromEnvironment = func(r *http.Request) (*url.URL, error) {
		t.Errorf("asked the environment for %s", r.URL)
		return nil, nil
	}
	s, _ := server(t, func(http.ResponseWriter, *http.Request) {})
	if err := sender(t, Options{}).Handle(t.Context(), jobFor(s.URL, "{}"), opened()); err != nil {
		t.Error(err)
	}
}

// A receiver cannot hold a delivery beyond its timeout, nor make it large.
func TestHostileAnswers(t *testing.T) {
	for _, c := range []struct {
		name  string
		reply func(c net.Conn, end <-chan struct{})
		want  string // empty: delivered
	}{
		{"silence", func(_ net.Conn, end <-chan struct{}) { <-end }, "no answer within 200ms"},
		{"headers, one byte at a time", func(c net.Conn, end <-chan struct{}) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX: ")
			drip(c, "x", end)
		}, "no answer within 200ms"},
		{"headers without end", func(c net.Conn, end <-chan struct{}) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX: ")
			flood(c, end)
		}, "exceeded"},
		{"100 without end", func(c net.Conn, _ <-chan struct{}) {
			for {
				if _, err := io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nX: 1\r\n\r\n"); err != nil {
					return
				}
			}
		}, "exceeded"},
		{"a body without end", func(c net.Conn, end <-chan struct{}) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
			flood(c, end)
		}, ""},
		{"a body, one byte at a time", func(c net.Conn, end <-chan struct{}) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
			drip(c, "x", end)
		}, ""},
		{"an error's body, one byte at a time", func(c net.Conn, end <-chan struct{}) {
			_, _ = io.WriteString(c, "HTTP/1.1 500 No\r\nContent-Length: 1000000\r\n\r\nwhy")
			drip(c, "", end)
		}, "answered 500: why"},
		{"a lie about the length", func(c net.Conn, _ <-chan struct{}) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort")
		}, ""},
		{
			"no HTTP", func(c net.Conn, _ <-chan struct{}) { _, _ = io.WriteString(c, "220 mail.example.com ESMTP\r\n") },
			"malformed",
		},
		{"the end, at once", func(net.Conn, <-chan struct{}) {}, "ended before an answer came"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end := make(chan struct{})
				r := piped(t, func(conn net.Conn) {
					b := make([]byte, 4096)
					if _, err := conn.Read(b); err == nil {
						c.reply(conn, end)
					}
				})
				job := jobFor("http://"+nowhere, "{}")
				job.Spec.Deliver = config("http://"+nowhere, 200*time.Millisecond)
				begin := time.Now()
				err := r.Handle(t.Context(), job, opened())
				close(end)
				if c.want == "" && err != nil {
					t.Errorf("error %v", err)
				} else if c.want != "" {
					wantErr(t, err, nil, c.want)
				}
				if took := time.Since(begin); took > 1200*time.Millisecond {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

func drip(c net.Conn, s string, end <-chan struct{}) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if _, err := io.WriteString(c, s); err != nil {
				return
			}
		case <-end:
			return
		}
	}
}

func flood(c net.Conn, end <-chan struct{}) {
	b := []byte(strings.Repeat("x", 64<<10))
	for {
		select {
		case <-end:
			return
		default:
		}
		if _, err := c.Write(b); err != nil {
			return
		}
	}
}

// The drainer's context ends the delivery, and the error says why.
func TestInterrupted(t *testing.T) {
	for _, cause := range []error{drain.ErrStopping, drain.ErrLeaseLost} {
		ctx, cancel := context.WithCancelCause(t.Context())
		s, _ := server(t, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			cancel(cause)
			<-r.Context().Done()
		})
		wantErr(t, sender(t, Options{}).Handle(ctx, jobFor(s.URL, "{}"), opened()), cause, "interrupted")
	}
}

func TestCannotConnect(t *testing.T) {
	g := opened()
	wantErr(t, sender(t, Options{}).Handle(t.Context(), jobFor("http://"+nowhere, "{}"), g), nil, "refused")
	s, _, _ := secure(t, func(http.ResponseWriter, *http.Request) { t.Error("delivered to a stranger") })
	s.Config.ErrorLog = discard()
	wantErr(t, sender(t, Options{}).Handle(t.Context(), jobFor(s.URL, "{}"), g), nil, "certificate")
	if g.count() != 0 {
		t.Error("was at the gate without a connection")
	}
	h := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer h.Close()
	wantErr(
		t, sender(t, Options{}).Handle(t.Context(), jobFor("https"+strings.TrimPrefix(h.URL, "http"), "{}"), g), nil,
		"TLS handshake",
	)
}

// What a setting has that nobody checked is not quoted.
func TestUncheckedURL(t *testing.T) {
	err := sender(t, Options{}).Deliver(
		t.Context(), jobFor("", "{}"), opened(), &Target{URL: "http://u:hunter2@a\x00/?hunter2"},
	)
	wantErr(t, err, errURL, "deliver.http.url")
	if strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
}
