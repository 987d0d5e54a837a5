package api_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

const turns = "/v1/queues/calls/turns"

// serveTurns is the API over a store on a file, with a queue for turns.
func serveTurns(t *testing.T, spec string) (*fixture, queue.Engine) {
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
	f.serveOver(e, api.Options{Pull: dispatcher, Turns: waits})
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
