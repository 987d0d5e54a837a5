package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/client"
)

func TestTake(t *testing.T) {
	var calls atomic.Int64
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch string(body) {
		case `{"key":"a","cost":2,"wait":"1s"}`:
			_, _ = io.WriteString(w, `{"allowed":true,"limit":5,"remaining":3,"reset_after_ms":2000,"receipt":"r"}`)
		case `{"key":"b"}`:
			refuse(w, 429, `{"reason":"limit_reached","limit":5,"retry_after_ms":1500,"reset_after_ms":2500}`)
		default:
			calls.Add(1)
			refuse(w, 503, `{"reason":"unavailable"}`)
		}
	})
	taken, err := c.Take(t.Context(), "otp", client.Take{Key: "a", Cost: 2, Wait: time.Second})
	if err != nil || !taken.Allowed || taken.Receipt != "r" || taken.ResetAfter() != 2*time.Second {
		t.Errorf("%+v, %v", taken, err)
	}
	taken, err = c.Take(t.Context(), "otp", client.Take{Key: "b"})
	if err != nil || taken.Allowed || taken.RetryAfter() != 1500*time.Millisecond || taken.Limit != 5 {
		t.Errorf("%+v, %v", taken, err)
	}
	var p *client.Problem
	if _, err = c.Take(t.Context(), "otp", client.Take{Key: "c"}); !errors.As(err, &p) || calls.Load() != 1 {
		t.Errorf("%v after %d calls", err, calls.Load())
	}
	if _, err = c.Refund(t.Context(), "otp", client.Take{Key: "c"}); !errors.As(err, &p) || calls.Load() != 2 {
		t.Errorf("%v after %d calls", err, calls.Load())
	}
}

func TestMiddleware(t *testing.T) {
	refunds := make(chan struct{})
	left := make(chan context.CancelFunc, 1)
	h := func(w http.ResponseWriter, r *http.Request) {
		var take struct{ Key, Lease string }
		_ = json.NewDecoder(r.Body).Decode(&take)
		switch {
		case strings.HasSuffix(r.URL.Path, "/refund"):
			if take.Lease == "place" {
				refunds <- struct{}{} // the response does not wait for it
			}
			_, _ = io.WriteString(w, `{"allowed":true}`)
		case take.Key == "left":
			(<-left)() // before the answer
			_, _ = io.WriteString(w, `{"allowed":true,"lease":"place"}`)
		case take.Key == "good":
			w.Header().Set("RateLimit", `"otp";r=1;t=30`)
			w.Header().Set("RateLimit-Policy", `"otp";q=2;w=60`)
			_, _ = io.WriteString(w, `{"allowed":true,"lease":"place"}`)
		case take.Key == "bad":
			w.Header().Set("RateLimit", `"otp";r=0;t=2`)
			refuse(w, 429, `{"reason":"limit_reached","retry_after_ms":1200}`)
		default:
			refuse(w, 503, `{"reason":"unavailable"}`)
		}
	}
	var notices atomic.Int64
	c := serve(t, h, client.WithNotices(func(client.Notice) { notices.Add(1) }))
	key := func(r *http.Request) string { return r.URL.Query().Get("key") }
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	get := func(o client.MiddlewareOptions, key string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if key == "left" {
			left <- cancel
		}
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/?key="+key, nil)
		c.Middleware("otp", o)(next).ServeHTTP(w, r)
		return w
	}
	o := client.MiddlewareOptions{Key: key}
	if w := get(o, "good"); w.Body.String() != "hello" || w.Header().Get("RateLimit") != `"otp";r=1;t=30` ||
		w.Header().Get("RateLimit-Policy") != `"otp";q=2;w=60` {
		t.Errorf("%+v", w)
	}
	<-refunds
	if w := get(o, "left"); w.Body.Len() > 0 {
		t.Errorf("%+v", w)
	}
	<-refunds // of a place that was given to a client that had left
	w := get(o, "bad")
	var p client.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != 429 || w.Header().Get("Retry-After") != "2" ||
		w.Header().Get("Content-Type") != "application/problem+json" || p.RetryAfterMS != 1200 ||
		p.Reason != client.ReasonLimitReached || w.Header().Get("RateLimit") != `"otp";r=0;t=2` {
		t.Errorf("%+v, %s", w, w.Body)
	}
	var typed struct{ Type string }
	if err := json.Unmarshal(w.Body.Bytes(), &typed); err != nil ||
		!strings.HasSuffix(typed.Type, "/problems/limit_reached") {
		t.Errorf("the type is %q, %v", typed.Type, err)
	}
	if w := get(o, "away"); w.Body.String() != "hello" || notices.Load() != 1 {
		t.Errorf("%+v", w)
	}
	o.RefuseOnError = true
	if w := get(o, "away"); w.Code != http.StatusServiceUnavailable || notices.Load() != 2 {
		t.Errorf("%+v", w)
	}
}

func TestTransport(t *testing.T) {
	var turns atomic.Int64
	var throttled string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.HasSuffix(r.URL.Path, "/throttle"):
			throttled = string(body)
			refuse(w, 404, `{"reason":"not_found"}`)
		case string(body) != `{"wait":"2s"}`:
			t.Errorf("%s", body)
		case turns.Add(1) > 4:
			refuse(w, 429, `{"reason":"no_turn","retry_after_ms":700}`)
		default:
			_, _ = io.WriteString(w, `{"waited_ms":3}`)
		}
	})
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/busy":
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
		case "/vague":
			w.WriteHeader(http.StatusTooManyRequests)
		case "/away":
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer provider.Close()
	paced := &http.Client{Transport: &client.Transport{Client: c, Queue: "q", Wait: 2 * time.Second}}
	for path, want := range map[string]string{"/": "", "/busy": `"after":"7s"`, "/vague": `"after":"1s"`, "/away": ""} {
		throttled = ""
		resp, err := paced.Get(provider.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if !strings.Contains(throttled, want) || want == "" && throttled != "" {
			t.Errorf("%s: %q, want %s", path, throttled, want)
		}
	}
	resp, err := paced.Post(provider.URL, "text/plain", strings.NewReader("x"))
	if err == nil {
		_ = resp.Body.Close()
	}
	var p *client.Problem
	if !errors.As(err, &p) || p.Reason != client.ReasonNoTurn || p.RetryAfter() != 700*time.Millisecond {
		t.Errorf("%v", err)
	}
}

func TestEvents(t *testing.T) {
	var calls atomic.Int64
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n := calls.Add(1)
		switch n {
		case 1:
			_, _ = fmt.Fprint(w, "retry: 2000\n\nid: i-1\nevent: reset\ndata: {\ndata: }\n\n:\n\n"+
				"id: i-2\nevent: paused\ndata: {\"queue\":\"q\"}\n\n")
		case 2:
			if r.Header.Get("Last-Event-ID") != "i-2" {
				t.Errorf("it continues after %q", r.Header.Get("Last-Event-ID"))
			}
			_, _ = fmt.Fprint(w, "id: i-3\nevent: resumed\ndata: {}\n\n"+
				"event: end\ndata: {\"status\":503,\"reason\":\"stopping\"}\n\n")
		default:
			refuse(w, 403, `{"reason":"forbidden"}`)
		}
	})
	var kinds []string
	var last error
	for e, err := range c.Events(t.Context(), "q", client.EventOptions{Pause: time.Millisecond}) {
		if err != nil {
			last = err
			break
		}
		kinds = append(kinds, e.Kind)
	}
	var p *client.Problem
	if strings.Join(kinds, " ") != "reset paused resumed" || !errors.As(last, &p) || p.Reason != client.ReasonForbidden {
		t.Errorf("%v, %v", kinds, last)
	}
}

func TestQueues(t *testing.T) {
	var asked []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, r.Method+" "+r.URL.String()+" "+string(body))
		_, _ = io.WriteString(w, `{"name":"q","rate":"1/s","bends":[],"finish_at":null}`)
	})
	ctx := t.Context()
	err := c.Apply(ctx, map[string]client.Spec{"b": {Rate: "1/s"}, "a": {Rate: "2/s", Pull: true}})
	_, paused := c.Pause(ctx, "q", "lunch", time.Time{})
	_, resumed := c.Resume(ctx, "q")
	f, forecast := c.Forecast(ctx, "q", "rate=50/s")
	err = errors.Join(err, paused, resumed, forecast, c.DeleteQueue(ctx, "q", true))
	if err != nil || !f.FinishAt.IsZero() {
		t.Fatal(err)
	}
	want := `PUT /v1/queues/a {"rate":"2/s","pull":true}|PUT /v1/queues/b {"rate":"1/s"}|` +
		`POST /v1/queues/q/pause {"reason":"lunch"}|POST /v1/queues/q/resume |` +
		`GET /v1/queues/q/forecast?set=rate%3D50%2Fs |DELETE /v1/queues/q?force=true `
	if got := strings.Join(asked, "|"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
