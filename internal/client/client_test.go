package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/queue"
)

// serve answers every request with a handler, and returns a client of it.
func serve(t *testing.T, h http.HandlerFunc) *client.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := client.New(s.URL+"/", s.Client())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func answer(t *testing.T, status int, head map[string]string, body string) *client.Client {
	return serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range head {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

func TestNewRefusesWhatIsNoURL(t *testing.T) {
	for _, bad := range []string{"", "127.0.0.1:8080", "ftp://a", "http://", "http://a?x=1", "http://a#b", "::"} {
		if _, err := client.New(bad, nil); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestProblems(t *testing.T) {
	tests := []struct {
		name   string
		status int
		head   map[string]string
		body   string
		want   client.Problem
		text   string
	}{
		{
			"ours", 429, nil, `{"status":429,"title":"the queue is full","reason":"full","detail":"come back",` +
				`"retry_after_ms":1500}`,
			client.Problem{Status: 429, Title: "the queue is full", Reason: "full", Detail: "come back", RetryAfterMS: 1500},
			"come back (full, HTTP 429)",
		},
		{
			"a field", 400, nil, `{"reason":"invalid_field","field":"rate","detail":"is nonsense"}`,
			client.Problem{Status: 400, Reason: "invalid_field", Field: "rate", Detail: "is nonsense"},
			"rate: is nonsense (invalid_field, HTTP 400)",
		},
		{
			"a proxy's page", 502,
			map[string]string{"Retry-After": "3"},
			"<html>bad gateway</html>",
			client.Problem{
				Status: 502, Title: "Bad Gateway", Reason: "http_error", Detail: "<html>bad gateway</html>", RetryAfterMS: 3000,
			},
			"<html>bad gateway</html> (http_error, HTTP 502)",
		},
		{
			"nothing", 503, nil, "",
			client.Problem{Status: 503, Title: "Service Unavailable", Reason: "http_error"},
			"Service Unavailable (http_error, HTTP 503)",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := answer(t, tt.status, tt.head, tt.body).Queue(t.Context(), "email")
			var p *client.Problem
			if !errors.As(err, &p) || !reflect.DeepEqual(*p, tt.want) {
				t.Fatalf("%+v, want %+v", err, tt.want)
			}
			if p.Error() != tt.text || p.RetryAfter() != time.Duration(tt.want.RetryAfterMS)*time.Millisecond {
				t.Errorf("%q, %v", p.Error(), p.RetryAfter())
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	c, err := client.New(s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Queues(t.Context())
	var gone *client.Unreachable
	if !errors.As(err, &gone) || !strings.Contains(err.Error(), "penstock up") || !strings.Contains(err.Error(), s.URL) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = c.Queues(ctx); !errors.Is(err, context.Canceled) || errors.As(err, &gone) {
		t.Errorf("a caller that gave up: %v", err)
	}
}

// What is said of an ingress never has the password of its URL.
func TestPasswordIsNotTold(t *testing.T) {
	c, err := client.New("http://someone:hunter2@127.0.0.1:1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	var faults []error
	_, err = c.Queue(t.Context(), "email")
	faults = append(faults, err)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "hunter2" {
			t.Error("the ingress was not told the password")
		}
		_, _ = io.WriteString(w, "hello")
	}))
	t.Cleanup(s.Close)
	if c, err = client.New(strings.Replace(s.URL, "//", "//someone:hunter2@", 1), s.Client()); err != nil {
		t.Fatal(err)
	}
	_, err = c.Queues(t.Context())
	faults = append(faults, err)
	_, err = c.Append(t.Context(), "email", [][]byte{[]byte("{}")})
	faults = append(faults, err)
	for _, bad := range []string{
		"ftp://u:hunter2@a", "http://a?token=hunter2", "http://u:hunter2@a:x", "http://a#hunter2",
	} {
		_, err := client.New(bad, nil)
		faults = append(faults, err)
	}
	for _, err := range faults {
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "***") {
			t.Errorf("%v", err)
		}
	}
}

func TestNotAnIngress(t *testing.T) {
	if _, err := answer(t, 200, nil, "hello").Queue(t.Context(), "email"); err == nil ||
		!strings.Contains(err.Error(), "is this an ingress") {
		t.Errorf("%v", err)
	}
	// Only a PUT is answered without how the queue is doing.
	bare := answer(t, 200, nil, `{"name":"email","rate":"1/s","revision":7}`)
	if q, err := bare.Put(t.Context(), "email", json.RawMessage(`{"rate":"1/s"}`), client.Always); err != nil ||
		q.Revision != 7 || q.Flow != nil {
		t.Errorf("%+v, %v", q, err)
	}
	if _, err := bare.Queue(t.Context(), "email"); err == nil || !strings.Contains(err.Error(), "an ingress") {
		t.Errorf("%v", err)
	}
	if _, err := bare.Pause(t.Context(), "email", "", time.Time{}); err == nil ||
		!strings.Contains(err.Error(), "an ingress") {
		t.Errorf("%v", err)
	}
	if _, err := answer(t, 200, nil, `{"queues":[{"name":"a","rate":"1/s"}]}`).Queues(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "an ingress") {
		t.Errorf("%v", err)
	}
	if _, err := answer(t, 200, nil, "hello").Append(t.Context(), "email", [][]byte{[]byte("{}")}); err == nil ||
		!strings.Contains(err.Error(), "an ingress") {
		t.Errorf("%v", err)
	}
}

func TestAppend(t *testing.T) {
	jobs := [][]byte{[]byte(`{"id":"a"}`), []byte(`{"id":"b"}`)}
	var gone *client.Unreachable
	tests := []struct {
		name, body string
		ok         bool
		check      func(error) bool
	}{
		{
			"in order",
			`{"line":1,"status":202,"id":"a","state":"waiting"}` + "\n" +
				`{"line":2,"status":429,"reason":"full","retry_after_ms":70}`,
			true, nil,
		},
		{"out of order", `{"line":2,"status":429,"retry_after_ms":70}` + "\n" + `{"line":1,"status":202}`, true, nil},
		{
			"and its end broken off",
			`{"line":1,"status":202}` + "\n" + `{"line":2,"status":429,"retry_after_ms":70}` + "\n" +
				`{"line":3,"status":503,"reason":"stopping"}`,
			true, nil,
		},
		{"cut short", `{"line":1,"status":202}`, false, func(err error) bool { return errors.As(err, &gone) }},
		{"twice the same", `{"line":1,"status":202}` + "\n" + `{"line":1,"status":202}`, false, nil},
		{"a line too many", `{"line":3,"status":202}`, false, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if string(body) != "{\"id\":\"a\"}\n{\"id\":\"b\"}\n" || r.Header.Get("Content-Type") != "application/x-ndjson" ||
					r.URL.Path != "/v1/queues/email/jobs" {
					t.Errorf("%s %q %s", r.URL, body, r.Header.Get("Content-Type"))
				}
				_, _ = io.WriteString(w, tt.body)
			})
			answers, err := c.Append(t.Context(), "email", jobs)
			if (err == nil) != tt.ok || tt.check != nil && !tt.check(err) {
				t.Fatal(err)
			}
			if !tt.ok {
				return
			}
			if !answers[0].Accepted() || answers[1].Accepted() || !answers[1].Again() ||
				answers[1].RetryAfter() != 70*time.Millisecond {
				t.Errorf("%+v", answers)
			}
		})
	}
}

func TestCancel(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.EscapedPath() != "/v1/queues/email/jobs/a%2Fb/cancel" {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		_, _ = io.WriteString(w, `{"queue":"email","id":"a/b","state":"cancelled"}`)
	})
	if j, err := c.Cancel(t.Context(), "email", "a/b"); err != nil || j.ID != "a/b" || j.State != queue.Cancelled {
		t.Errorf("%+v, %v", j, err)
	}
	_, err := answer(
		t, 409, nil, `{"reason":"not_cancellable","detail":"the job is leased","state":"leased"}`,
	).Cancel(t.Context(), "email", "b")
	var p *client.Problem
	if !errors.As(err, &p) || p.State != "leased" {
		t.Errorf("%+v", err)
	}
}

func TestQueuesOfManyPages(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		page := map[string]string{
			"":  `{"queues":[{"name":"a","rate":"14/s","stats":{"waiting":3,"leased":1}}],"next":"a"}`,
			"a": `{"queues":[{"name":"b","rate":"unlimited","stats":{}}]}`,
		}[r.URL.Query().Get("after")]
		_, _ = io.WriteString(w, page)
	})
	queues, err := c.Queues(t.Context())
	if err != nil || len(queues) != 2 || queues[0].Rate.String() != "14/s" || queues[0].Stats.Size() != 4 ||
		queues[1].Name != "b" {
		t.Errorf("%+v, %v", queues, err)
	}
}

func TestRowsOfManyPages(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		page := map[string]string{
			"0": `{"queues":[{"name":"a","rate":"14/s","verdict":"wrong"}],"next":1}`,
			"1": `{"queues":[{"name":"b","rate":"unlimited","outlook":{"delay_seconds":null,"finish_at":null}}]}`,
		}[r.URL.Query().Get("offset")]
		_, _ = io.WriteString(w, page)
	})
	rows, err := c.Rows(t.Context())
	if err != nil || len(rows) != 2 || rows[0].Verdict != "wrong" || rows[1].Name != "b" || rows[1].Outlook == nil {
		t.Errorf("%+v, %v", rows, err)
	}
}

func TestConditions(t *testing.T) {
	var heads []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		heads = append(heads, r.Method+" "+r.URL.String()+" "+r.Header.Get("If-Match")+r.Header.Get("If-None-Match"))
		_, _ = io.WriteString(w, `{"name":"q","rate":"1/s"}`)
	})
	for _, revision := range []int64{client.Always, client.Absent, 7} {
		if _, err := c.Put(t.Context(), "q", json.RawMessage(`{"rate":"1/s"}`), revision); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Delete(t.Context(), "a/b", 3, true); err != nil {
		t.Fatal(err)
	}
	want := "PUT /v1/queues/q |PUT /v1/queues/q *|PUT /v1/queues/q \"7\"|DELETE /v1/queues/a%2Fb?force=true \"3\""
	if got := strings.Join(heads, "|"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
