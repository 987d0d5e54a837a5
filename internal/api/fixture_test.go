package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// fixture is a server over an engine with one queue, email.
type fixture struct {
	t      *testing.T
	engine *engine
	url    string
	client *http.Client
	close  func() // returns when no request is under way any more
}

func serve(t *testing.T, o api.Options) *fixture {
	t.Helper()
	f := unserved(t)
	f.serveOver(f.engine, o)
	return f
}

// unserved is a fixture without a server.
func unserved(t *testing.T) *fixture {
	t.Helper()
	e := newEngine()
	spec := queue.Spec{Name: "email", Rate: leaky.PerSecond(14)}
	spec.Normalize()
	if _, err := e.Put(context.Background(), spec, 0); err != nil {
		t.Fatal(err)
	}
	return &fixture{t: t, engine: e}
}

// takenBy is an engine whose jobs somebody else takes in.
type takenBy struct {
	queue.Engine
	appender queue.Appender
}

func (e takenBy) Append(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	return e.appender.Append(ctx, jobs)
}

// serveTo is serve with jobs that another takes in.
func serveTo(t *testing.T, a queue.Appender, o api.Options) *fixture {
	t.Helper()
	f := serve(t, o)
	f.serveOver(takenBy{f.engine, a}, o)
	return f
}

// serveOver puts the fixture's server over another engine.
func (f *fixture) serveOver(e queue.Engine, o api.Options) {
	f.serveHandler(held(f.t, api.New(e, o)))
}

func (f *fixture) serveHandler(h http.Handler) {
	srv := httptest.NewServer(h)
	f.t.Cleanup(srv.Close)
	f.url, f.client, f.close = srv.URL, srv.Client(), srv.Close
}

func (f *fixture) do(method, path, body string, header ...string) *answer {
	f.t.Helper()
	req, err := http.NewRequest(method, f.url+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	if body != "" && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := f.client.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	a := &answer{status: resp.StatusCode, header: resp.Header, text: string(b)}
	if strings.Contains(resp.Header.Get("Content-Type"), "json") && len(b) > 0 && b[0] != '[' &&
		resp.Header.Get("Content-Type") != "application/x-ndjson" {
		if err := json.Unmarshal(b, &a.body); err != nil {
			f.t.Fatalf("%s %s: %d: not JSON: %v\n%s", method, path, resp.StatusCode, err, b)
		}
	}
	return a
}

type answer struct {
	status int
	header http.Header
	text   string
	body   map[string]any
}

// plainly is a value as text; a whole number has no exponent.
func plainly(v any) string {
	if n, ok := v.(float64); ok && n == math.Trunc(n) {
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprint(v)
}

func (a *answer) want(t *testing.T, status int, members ...any) {
	t.Helper()
	if a.status != status {
		t.Errorf("status %d, want %d: %.300s", a.status, status, a.text)
		return
	}
	for i := 0; i < len(members); i += 2 {
		if got, want := plainly(a.body[members[i].(string)]), plainly(members[i+1]); got != want {
			t.Errorf("%v is %s, want %s: %.300s", members[i], got, want, a.text)
		}
	}
}

const jobs = "/v1/queues/email/jobs"
