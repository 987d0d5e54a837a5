package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock/penstock/admission"
	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/rules"
)

// hangingUp is an engine whose caller hangs up just as it has answered what the test names.
type hangingUp struct {
	queue.Engine
	hangUp func()
	on     string
}

func (l *hangingUp) Take(ctx context.Context, rule string, takes []rules.Take) ([]rules.Taken, error) {
	taken, err := l.Engine.Take(ctx, rule, takes)
	if l.on == "take" && takes[0].Op == rules.TakeNow {
		l.hangUp()
	}
	return taken, err
}

// gone serves a request whose client hangs up while it is answered.
func gone(t *testing.T, h http.Handler, l *hangingUp, path, body string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l.hangUp = cancel
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	h.ServeHTTP(broken{}, r)
	l.hangUp = func() {}
}

// broken is a connection that takes no answer.
type broken struct{}

func (broken) Header() http.Header         { return http.Header{} }
func (broken) WriteHeader(int)             {}
func (broken) Write(b []byte) (int, error) { return len(b), nil }
func (broken) FlushError() error           { return http.ErrHandlerTimeout }

// What was taken for a client that has gone is given back, but not a place that it named: it may have held that before.
func TestTakeOfOneWhoHasGone(t *testing.T) {
	e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	l := &hangingUp{Engine: e, hangUp: func() {}, on: "take"}
	h := api.New(l, api.Options{Waits: admission.New(l, admission.Options{})})
	for name, spec := range map[string]string{
		"calls": `{"algorithm":"fixed_window","limit":5,"period":"1h"}`,
		"slots": `{"algorithm":"concurrency","limit":1,"ttl":"1h"}`,
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPut, "/v1/rules/"+name, strings.NewReader(spec))
		r.Header.Set("Content-Type", "application/json")
		if h.ServeHTTP(w, r); w.Code != http.StatusCreated {
			t.Fatal(w.Body)
		}
	}
	left := func(rule string) int64 {
		t.Helper()
		taken, err := e.Take(t.Context(), rule, []rules.Take{{Op: rules.TakePeek}})
		if err != nil || taken[0].Err != nil {
			t.Fatal(err, taken)
		}
		if !taken[0].Allowed {
			return 0
		}
		return taken[0].Remaining + 1
	}
	for _, on := range []string{"take", "answer"} { // it goes while the store is asked, or while it is answered
		l.on = on
		gone(t, h, l, "/v1/rules/calls/take", `{"wait":"1s"}`)
		if n := left("calls"); n != 5 {
			t.Errorf("gone while the %s: %d of 5 are left", on, n)
		}
		if _, err := e.Take(t.Context(), "slots", []rules.Take{{Lease: "mine"}}); err != nil {
			t.Fatal(err)
		}
		gone(t, h, l, "/v1/rules/slots/take", `{"lease":"mine","wait":"1s"}`)
		if n := left("slots"); n != 0 {
			t.Errorf("gone while the %s: the place that was held before is free", on)
		}
	}
}

// A job is not let into the lane of turns, where one who gives up a turn could take it back.
func TestLaneOfTurns(t *testing.T) {
	f, _ := serveTurns(t, `{"rate":"unlimited","pull":true}`)
	f.do(
		"POST", "/v1/queues/calls/jobs", `{"payload":1,"lane":"`+pull.TurnLane+`"}`,
	).want(t, 400, "reason", "invalid_field", "field", "lane")
}

// A queue that is no pull queue any more delivers no turns: at most those on their way.
func TestTurnsOfAChangedQueue(t *testing.T) {
	f, e := serveTurns(t, `{"rate":"unlimited","pull":true}`)
	f.do("POST", turns, `{}`).want(t, 200)
	f.do("PUT", "/v1/queues/calls", `{"rate":"unlimited"}`).want(t, 200)
	for range 3 {
		f.do("POST", turns, `{"wait":"1s"}`).want(t, 400, "reason", "invalid_field", "field", "queue")
	}
	await.Until(t, "no turn is left to deliver", func() bool {
		info, err := e.Get(t.Context(), "calls")
		return err == nil && info.Size() == 0
	})
	if info, err := e.Get(t.Context(), "calls"); err != nil || info.Appended > 2 {
		t.Errorf("%d turns were put into it, %v", info.Appended, err)
	}
}

// Whoever may put a queue does not operate others by what it delivers.
func TestDeliveriesOperateNothing(t *testing.T) {
	h := api.Guard(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }),
		api.GuardOptions{},
	)
	for path, want := range map[string]int{
		email + "/purge": 403, email + "/pause": 403, email: 403, "/v1/rules/x/reset": 403, "/metrics": 403,
		jobs: http.StatusTeapot,
	} {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1"+path, strings.NewReader("{}"))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Penstock-Attempt", "1")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}

// Only so many requests wait at once; one more is told to come back.
func TestTooManyWaits(t *testing.T) {
	e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	asked := make(chan struct{}, 10)
	l := &hangingUp{Engine: e, on: "take", hangUp: func() { asked <- struct{}{} }}
	f := &fixture{t: t}
	f.serveOver(l, api.Options{MaxWaits: 1})
	f.do("PUT", "/v1/rules/slots", `{"algorithm":"concurrency","limit":1,"ttl":"1h"}`).want(t, 201)
	f.do("POST", "/v1/rules/slots/take", `{"lease":"mine"}`).want(t, 200)
	<-asked
	leave := f.leave("POST", "/v1/rules/slots/take", `{"wait":"60s"}`)
	<-asked
	f.do("POST", "/v1/rules/slots/take", `{"wait":"60s"}`).want(t, 503, "reason", "overloaded")
	leave()
	await.Until(t, "the place to wait is free again", func() bool {
		return f.do("POST", "/v1/rules/slots/take", `{"wait":"1ms"}`).status == 429
	})
}
