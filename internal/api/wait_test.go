package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/admission"
	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/rules"
)

const turns = "/v1/queues/calls/turns"

// serveTurns is the API over a store on a file, with a queue for turns.
func serveTurns(t *testing.T, spec string, change ...func(queue.Engine, *api.Options)) (*fixture, queue.Engine) {
	t.Helper()
	e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	dispatcher := pull.New(e, pull.Options{})
	waits := pull.NewQueueTurns(e, dispatcher)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- dispatcher.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		waits.Close()
	})
	f := &fixture{t: t}
	o := api.Options{Pull: dispatcher, Turns: waits}
	for _, c := range change {
		c(e, &o)
	}
	f.serveOver(e, o)
	f.do("PUT", "/v1/queues/calls", spec).want(t, 201)
	return f, e
}

func TestTurnsOverHTTP(t *testing.T) {
	f, e := serveTurns(t, `{"rate":"20/s","pull":true}`)
	begun := time.Now()
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if a := f.do("POST", turns, `{"wait":"30s"}`); a.status != 200 || !strings.Contains(a.text, `"waited_ms":`) {
				t.Errorf("%d %s", a.status, a.text)
			}
		})
	}
	all.Wait()
	if took := time.Since(begun); took < 9*50*time.Millisecond {
		t.Errorf("10 turns of 20/s came within %v", took)
	}
	await.Until(t, "the turns are over", func() bool {
		info, err := e.Get(t.Context(), "calls")
		return err == nil && info.Size() == 0 && info.Delivered == 10
	})
}

// A turn is charged what its caller states in other units, or the queue's estimate.
func TestTurnsWithCosts(t *testing.T) {
	f, e := serveTurns(t, `{"rate":"unlimited","pull":true,"limits":[{"unit":"tokens","quota":"1000/d"}],
		"estimate":{"tokens":{"default":50}}}`)
	f.do("POST", turns, `{"costs":{"tokens":700}}`).want(t, 200)
	f.do("POST", turns, `{}`).want(t, 200)
	i, err := e.Get(t.Context(), "calls")
	if err != nil {
		t.Fatal(err)
	}
	if s, ok := i.QuotaState(0); !ok || s.Used != 750 {
		t.Errorf("%+v, %v", s, ok)
	}
	f.do("POST", turns, `{"costs":{"tokens":300},"wait":"1s"}`).want(t, 429, "reason", "no_turn") // not today
}

func TestTurnsRefused(t *testing.T) {
	f, e := serveTurns(t, `{"rate":"1/h","pull":true,"capacity":2}`)
	f.do("PUT", email, `{"rate":"1/s"}`).want(t, 201)
	for _, c := range []struct {
		path, body string
		status     int
		problem    []any
	}{
		{turns, `{"wait":"61s"}`, 400, []any{"reason", "invalid_field", "field", "wait"}},
		{turns, `{"wait":"0s"}`, 400, []any{"reason", "invalid_field", "field", "wait"}},
		{turns, `{"wait":5}`, 400, []any{"reason", "invalid_field", "field", "wait"}},
		{turns, `{"waits":"1s"}`, 400, []any{"reason", "unknown_field", "field", "waits"}},
		{turns, `{"costs":{"tokens":-1}}`, 400, []any{"reason", "invalid_field", "field", "costs.tokens"}},
		{turns, `{"costs":{"tokens":1}}`, 400, []any{"reason", "invalid_field", "field", "costs.tokens"}}, // none counts it
		{turns, `{"costs":{"tokens":1.5}}`, 400, []any{"reason", "invalid_field", "field", "costs.tokens"}},
		{turns, `{`, 400, []any{"reason", "invalid_json"}},
		{"/v1/queues/none/turns", `{}`, 404, []any{"reason", "unknown_queue"}},
		{"/v1/queues/N%20O/turns", `{}`, 404, []any{"reason", "unknown_queue"}},
		{email + "/turns", `{}`, 400, []any{"reason", "invalid_field", "field", "queue"}},
	} {
		f.do("POST", c.path, c.body).want(t, c.status, c.problem...)
	}
	f.do("POST", turns, `{}`).want(t, 200) // the first is there at once
	a := f.do("POST", turns, `{"wait":"1s"}`)
	a.want(t, 429, "reason", "no_turn")
	if a.header.Get("Retry-After") == "" {
		t.Error("it is not told when to come back")
	}
	await.Until(t, "nothing is left behind", func() bool {
		info, err := e.Get(t.Context(), "calls")
		return err == nil && info.Size() == 0
	})
}

// A caller who hangs up gives the place back.
func TestTurnHungUp(t *testing.T) {
	f, e := serveTurns(t, `{"rate":"2/m","pull":true}`)
	f.do("POST", turns, `{}`).want(t, 200)
	size := func(n int64) func() bool {
		return func() bool {
			info, err := e.Get(t.Context(), "calls")
			return err == nil && info.Size() == n
		}
	}
	await.Until(t, "the first turn is over", size(0))
	hangUp := f.leave("POST", turns, `{"wait":"60s"}`)
	await.Until(t, "one waits", size(1))
	hangUp()
	await.Until(t, "nobody waits", size(0))
}

// A queue with jobs in it is no place for turns, and no job is lost by one who tries.
func TestTurnsBesideJobs(t *testing.T) {
	f, e := serveTurns(t, `{"rate":"unlimited","pull":true}`)
	for i := range 3 {
		f.do("POST", "/v1/queues/calls/jobs", fmt.Sprintf(`{"payload":%d,"id":"job-%d"}`, i, i)).want(t, 202)
	}
	met := false
	for range 20 {
		if a := f.do("POST", turns, `{"wait":"1s"}`); a.status == 400 {
			a.want(t, 400, "reason", "invalid_field", "field", "queue")
			met = true
			break
		}
	}
	if !met {
		t.Error("nobody met a job")
	}
	await.Until(t, "all jobs wait, and they alone", func() bool {
		info, err := e.Get(t.Context(), "calls")
		return err == nil && info.Waiting == 3 && info.Size() == 3
	})
	for i := range 3 {
		if job, err := e.Job(t.Context(), "calls", fmt.Sprintf("job-%d", i)); err != nil || job.State != queue.Waiting {
			t.Errorf("%+v, %v", job, err)
		}
	}
}

// A take may wait for what is refused now; one that would wait in vain is told so at once.
func TestTakeWaits(t *testing.T) {
	f, _ := serveTurns(t, `{"rate":"1/s","pull":true}`)
	f.do("PUT", "/v1/rules/api.calls", `{"algorithm":"meter","rate":"10/s","key":"{lane}"}`).want(t, 201)
	take := "/v1/rules/api.calls/take"
	begun := time.Now()
	for range 5 {
		f.do("POST", take, `{"key":"k","wait":"10s"}`).want(t, 200)
	}
	if took := time.Since(begun); took < 4*100*time.Millisecond {
		t.Errorf("5 of 10/s were let through within %v", took)
	}
	f.do("PUT", "/v1/rules/api.slow", `{"algorithm":"meter","rate":"1/h","key":"{lane}"}`).want(t, 201)
	slow := "/v1/rules/api.slow/take"
	f.do("POST", slow, `{"key":"k","wait":"10s"}`).want(t, 200)
	f.do("POST", slow, `{"key":"k","wait":"10s"}`).want(t, 429, "reason", "limit_reached")
	for _, c := range []struct {
		path, body, reason, field string
	}{
		{take, `{"key":"k","wait":"2m"}`, "invalid_field", "wait"},
		{take, `{"key":"k","wait":"-1s"}`, "invalid_field", "wait"},
		{take, `{"key":"k","wait":10}`, "invalid_field", "wait"},
		{take, `{"takes":[{"key":"k"}],"wait":"1s"}`, "invalid_field", "wait"},
		{take, `{"takes":[{"key":"k","wait":"1s"}]}`, "", ""},
		{"/v1/rules/api.calls/peek", `{"key":"k","wait":"1s"}`, "unknown_field", "wait"},
		{"/v1/rules/api.calls/refund", `{"key":"k","wait":"1s"}`, "unknown_field", "wait"},
	} {
		a := f.do("POST", c.path, c.body)
		if c.reason == "" { // within a list each answer has its own reason
			if a.status != 200 || !strings.Contains(a.text, `"reason":"unknown_field"`) {
				t.Errorf("%s: %d %s", c.body, a.status, a.text)
			}
			continue
		}
		a.want(t, 400, "reason", c.reason, "field", c.field)
	}
}

// leave sends a request whose client hangs up when the returned function is called.
func (f *fixture) leave(method, path, body string) func() {
	ctx, cancel := context.WithCancel(f.t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		r, err := http.NewRequestWithContext(ctx, method, f.url+path, strings.NewReader(body))
		if err != nil {
			f.t.Error(err)
			return
		}
		r.Header.Set("Content-Type", "application/json")
		if resp, err := http.DefaultClient.Do(r); err == nil {
			_ = resp.Body.Close()
			f.t.Errorf("%s %s was answered %s", method, path, resp.Status)
		}
	}()
	return func() { cancel(); <-gone }
}

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
	h := httpio.Guard(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }),
		httpio.GuardOptions{},
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
