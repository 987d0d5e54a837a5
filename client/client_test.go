package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/client"
)

// serve returns a client of a handler.
func serve(t *testing.T, h http.HandlerFunc, options ...client.Option) *client.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := client.New(s.URL, append([]client.Option{client.WithToken("")}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func refuse(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func TestRetries(t *testing.T) {
	tests := []struct {
		name  string
		fail  func(w http.ResponseWriter)
		calls int64 // until it succeeds, or is given up
		ok    bool
	}{
		{"a proxy without a server", func(w http.ResponseWriter) { refuse(w, 502, "bad gateway") }, 3, true},
		{"no store", func(w http.ResponseWriter) { refuse(w, 503, `{"reason":"unavailable","retry_after_ms":5}`) }, 3, true},
		{"unknown", func(w http.ResponseWriter) { refuse(w, 504, `{"reason":"outcome_unknown"}`) }, 3, true},
		{"crowded", func(w http.ResponseWriter) { refuse(w, 429, `{"reason":"crowded","retry_after_ms":1}`) }, 3, true},
		{"no answer", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, 3, true},
		{"part of one", func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"id":"a`)
		}, 3, true},
		{"full", func(w http.ResponseWriter) { refuse(w, 429, `{"reason":"full","retry_after_ms":1}`) }, 1, false},
		{"a mistake", func(w http.ResponseWriter) { refuse(w, 400, `{"reason":"invalid_field","field":"lane"}`) }, 1, false},
		{"internal", func(w http.ResponseWriter) { refuse(w, 500, `{"reason":"internal"}`) }, 1, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var calls, notices atomic.Int64
			var ids sync.Map
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				var job struct{ ID string }
				_ = json.NewDecoder(r.Body).Decode(&job)
				ids.Store(job.ID, true)
				if calls.Add(1) < 3 {
					tt.fail(w)
					return
				}
				w.Header().Set("Idempotent-Replayed", "true")
				_, _ = io.WriteString(w, `{"id":"`+job.ID+`","state":"waiting","position":7}`)
			}, client.WithNotices(func(client.Notice) { notices.Add(1) }))
			done, err := c.Append(t.Context(), "q", client.Job{Payload: 1})
			if (err == nil) != tt.ok || calls.Load() != tt.calls || notices.Load() != tt.calls-1 {
				t.Fatalf("%v after %d calls and %d notices", err, calls.Load(), notices.Load())
			}
			n := 0
			ids.Range(func(id, _ any) bool { n++; return id != "" })
			if n != 1 || done.ID == "" || tt.ok && (!done.Duplicate || done.Position != 7) {
				t.Errorf("%d ids were used; %+v", n, done)
			}
		})
	}
}

func TestRetriesEndWithinTheTimeout(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, 503, `{"reason":"unavailable","retry_after_ms":60000}`)
	})
	begun := time.Now()
	_, err := c.Queue(t.Context(), "q")
	var p *client.Problem
	if !errors.As(err, &p) || p.RetryAfter() != time.Minute || time.Since(begun) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(begun))
	}
}

func TestRetryAfter(t *testing.T) {
	for _, tt := range []struct {
		head, body string
		low, high  time.Duration
	}{
		{"9", `{"reason":"full","retry_after_ms":1500}`, 1500 * time.Millisecond, 1500 * time.Millisecond},
		{"2", `{"reason":"full"}`, 2 * time.Second, 2 * time.Second},
		{time.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat), "busy", 80 * time.Second, 91 * time.Second},
		{"soon", "busy", 0, 0},
	} {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", tt.head)
			refuse(w, 429, tt.body)
		})
		_, err := c.Append(t.Context(), "q", client.Job{Payload: 1})
		var p *client.Problem
		if !errors.As(err, &p) || p.RetryAfter() < tt.low || p.RetryAfter() > tt.high {
			t.Errorf("%s %s: %+v", tt.head, tt.body, err)
		}
	}
}

func TestTimeoutAndCancel(t *testing.T) {
	stop := make(chan struct{})
	var calls atomic.Int64
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	}, client.WithTimeout(50*time.Millisecond))
	t.Cleanup(func() { close(stop) })
	_, err := c.Queue(t.Context(), "q")
	var gone *client.Unreachable
	if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &gone) || calls.Load() != 1 {
		t.Errorf("%v after %d calls", err, calls.Load())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Queue(ctx, "q"); !errors.Is(err, context.Canceled) || errors.As(err, &gone) {
		t.Errorf("%v", err)
	}
}

func TestTokens(t *testing.T) {
	want := "first"
	var refused atomic.Int64
	h := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+want {
			refused.Add(1)
			refuse(w, 401, `{"reason":"unauthenticated"}`)
			return
		}
		_, _ = io.WriteString(w, `{"id":"a","state":"waiting"}`)
	}
	try := func(c *client.Client) error {
		_, err := c.Append(t.Context(), "q", client.Job{Payload: 1})
		return err
	}
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		if err := os.WriteFile(file+"2", []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+"2", file); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	asked := 0
	of := map[string]*client.Client{
		"file": serve(t, h, client.WithTokenFile(file)),
		"source": serve(t, h, client.WithTokenSource(func(context.Context) (string, error) {
			asked++
			return want, nil
		})),
		"value": serve(t, h, client.WithToken("first")),
	}
	for name, c := range of {
		if err := try(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	want = "second"
	write(want)
	if err := errors.Join(try(of["file"]), try(of["file"]), try(of["source"]), try(of["source"])); err != nil {
		t.Error(err)
	}
	if refused.Load() != 1 || asked != 2 {
		t.Errorf("%d refusals, asked %d times", refused.Load(), asked)
	}
	var p *client.Problem
	if err := try(of["value"]); !errors.As(err, &p) || p.Status != 401 || refused.Load() != 2 {
		t.Errorf("%v", err)
	}
	want = "third" // the file has no other token
	if err := try(of["file"]); !errors.As(err, &p) || refused.Load() != 3 {
		t.Errorf("%v after %d refusals", err, refused.Load())
	}
}

func TestEnvironment(t *testing.T) {
	var got string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization") + r.Header.Get("User-Agent") + r.Header.Get("Traceparent")
		_, _ = io.WriteString(w, `{}`)
	}))
	defer s.Close()
	t.Setenv("PENSTOCK_URL", s.URL)
	t.Setenv("PENSTOCK_TOKEN", "secret")
	t.Setenv("PENSTOCK_TOKEN_FILE", "/does/not/exist") // PENSTOCK_TOKEN goes before it
	c, err := client.New("")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Queue(client.WithTraceparent(t.Context(), "00-x"), "q"); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got, "Bearer secretpenstock-go/") || !strings.HasSuffix(got, "00-x") {
		t.Error(got)
	}
}

func TestUnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "p") // a path that is short enough
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, `{"name":"`+r.Host+`"}`) },
	)}}
	s.Start()
	defer s.Close()
	for _, with := range [][]client.Option{
		nil, {client.WithHTTPClient(&http.Client{})}, {client.WithHTTPClient(&http.Client{Transport: &http.Transport{}})},
	} {
		c, err := client.New("unix://"+filepath.Join(dir, "s"), append(with, client.WithToken("secret"))...)
		if err != nil {
			t.Fatal(err)
		}
		if q, err := c.Queue(t.Context(), "q"); err != nil || q.Name != "localhost" {
			t.Errorf("%+v, %v", q, err)
		}
	}
	other := client.WithHTTPClient(&http.Client{Transport: transport(nil)})
	if _, err := client.New("unix:///s", other); err == nil || !strings.Contains(err.Error(), "cannot dial a socket") {
		t.Errorf("%v", err)
	}
}

// A token is not sent to another server, neither by a redirect nor in a message.
func TestTokenStaysHere(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was followed") }))
	defer other.Close()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}, client.WithToken("secret"))
	var p *client.Problem
	if _, err := c.Queue(t.Context(), "q"); !errors.As(err, &p) || p.Status != http.StatusTemporaryRedirect {
		t.Errorf("%v", err)
	}
	for _, address := range []string{
		"ftp://u:hunter2@a", "http://a?token=hunter2", "http://u:hunter2@a:x", "http://a#hunter2",
	} {
		if _, err := client.New(address); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v", err)
		}
	}
}

// The environment is read once per process, so another process makes the request.
func TestProxy(t *testing.T) {
	if os.Getenv("PENSTOCK_CLIENT_TEST_PROXIED") != "" {
		c, err := client.New("http://penstock.invalid", client.WithToken(""))
		if err != nil {
			t.Fatal(err)
		}
		if q, err := c.Queue(t.Context(), "q"); err != nil || q.Name != "penstock.invalid" {
			t.Errorf("%+v, %v", q, err)
		}
		return
	}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"name":"`+r.URL.Host+`"}`)
	}))
	defer proxy.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	again := exec.CommandContext(t.Context(), self, "-test.run=^TestProxy$")
	again.Env = append(os.Environ(), "PENSTOCK_CLIENT_TEST_PROXIED=1", "HTTP_PROXY="+proxy.URL, "http_proxy=", "NO_PROXY=",
		"no_proxy=", "REQUEST_METHOD=")
	if out, err := again.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestUnknownFieldsAreKept(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"name":"q","rate":"5/s","news":1}`)
	})
	q, err := c.Queue(t.Context(), "q")
	if err != nil || q.Rate != "5/s" || !strings.Contains(string(q.Raw), `"news":1`) {
		t.Errorf("%+v, %v", q, err)
	}
}

func TestConditions(t *testing.T) {
	var got []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("If-Match")+r.Header.Get("If-None-Match"))
		refuse(w, 503, `{"reason":"unavailable","retry_after_ms":1}`)
	})
	for _, condition := range []client.Condition{client.IfRevision(7), client.IfAbsent()} {
		if _, err := c.PutQueue(t.Context(), "q", client.Spec{Rate: "1/s"}, condition); err == nil {
			t.Error("it was accepted")
		}
	}
	if text := strings.Join(got, " "); text != `"7" *` { // none is repeated
		t.Error(text)
	}
}
