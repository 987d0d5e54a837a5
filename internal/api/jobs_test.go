package api_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

// kept is an engine whose jobs are kept from being cancelled.
type kept struct {
	*engine
	by queue.State
}

func (k kept) Cancel(context.Context, string, string) (queue.State, error) { return k.by, nil }

func TestCancel(t *testing.T) {
	f := serve(t, api.Options{})
	f.do("POST", jobs, `{"payload":1,"id":"a/b"}`).want(t, 202)
	for range 2 {
		f.do("POST", jobs+"/a%2Fb/cancel", "").want(t, 200, "queue", "email", "id", "a/b", "state", "cancelled")
	}
	f.do("POST", jobs+"/b/cancel", "").want(t, 404, "reason", "unknown_job", "id", "b")
	f.do("POST", "/v1/queues/none/jobs/b/cancel", "").want(t, 404, "reason", "unknown_queue", "id", "b")
	f.do("POST", jobs+"/"+strings.Repeat("x", 200)+"/cancel", "").want(t, 400, "field", "id")
	f.do("POST", jobs+"/a%20b/cancel", "").want(t, 400, "field", "id")
	f.do("GET", jobs+"/b/cancel", "").want(t, 405)
	f.do("PUT", jobs+"/b", "").want(t, 405)
	for _, by := range []queue.State{queue.Leased, queue.Delivered, queue.Dead, queue.Expired} {
		f.serveOver(kept{f.engine, by}, api.Options{})
		f.do("POST", jobs+"/b/cancel", "").want(t, 409, "reason", "not_cancellable", "id", "b", "state", by)
	}
}

// A queue says what it does, and why: by itself, in a list, and in the answer to what changed that.
func TestQueueStatus(t *testing.T) {
	e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	f := &fixture{t: t}
	f.serveOver(e, api.Options{})
	number := uint64(0)
	drain := func(most int) {
		t.Helper()
		number++
		if _, err := e.Reserve(t.Context(), queue.ReserveRequest{
			Client: queue.Client{ID: "d"}, Number: number, Max: most,
		}); err != nil {
			t.Fatal(err)
		}
	}
	has := func(want map[string]any) {
		t.Helper()
		one := f.do("GET", "/v1/queues/ses.otp", "").body
		listed := f.do("GET", "/v1/queues?after=ses", "").body["queues"].([]any)[0].(map[string]any)
		for _, q := range []map[string]any{one, listed} {
			status, _ := q["status"].(map[string]any)
			for field, v := range want {
				if status[field] != v {
					t.Errorf("%s is %v, want %v: %v", field, status[field], v, status)
				}
			}
		}
	}
	f.do("PUT", "/v1/queues/ses", `{"rate":"100/s","limits":[{"quota":"1/w"}]}`).want(t, 201)
	f.do("PUT", "/v1/queues/ses.otp", `{"rate":"100/s","capacity":2}`).want(t, 201)
	has(map[string]any{"code": "idle", "text": "idle", "full": false, "until": nil, "last_asked": nil})
	f.do("POST", "/v1/queues/ses.otp/jobs", `{"payload":1}`).want(t, 202)
	f.do("POST", "/v1/queues/ses.otp/jobs", `{"payload":2}`).want(t, 202)
	has(map[string]any{"code": "no_drainer", "text": "no drainer, full", "full": true})
	drain(0)
	has(map[string]any{"code": "flowing", "text": "flowing, full"})
	drain(1)
	week := time.Now().UTC().Truncate(24 * time.Hour)
	for week = week.AddDate(0, 0, 1); week.Weekday() != time.Monday; {
		week = week.AddDate(0, 0, 1)
	}
	has(map[string]any{"code": "quota", "queue": "ses", "reason": "1/w", "until": week.Format(time.RFC3339)})
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	paused := f.do(
		"POST", "/v1/queues/ses/pause", `{"reason":"invoice","until":"`+until.Format(time.RFC3339)+`"}`, "Penstock-By", "ann",
	)
	if s := paused.body["status"].(map[string]any); s["code"] != "paused" || s["claimed_by"] != "ann" {
		t.Errorf("the answer to the pause: %v", s)
	}
	has(map[string]any{
		"code": "parent_paused", "queue": "ses", "reason": "invoice", "claimed_by": "ann",
		"until": until.Format(time.RFC3339),
	})
}

// An ingress without a drainer takes jobs, and says what it lacks.
func TestReadinessWithoutDrainer(t *testing.T) {
	f := serve(t, api.Options{})
	f.do("GET", "/readyz", "").want(t, 200, "status", "ready", "drainers", nil)
	f.engine.undrained = 3*time.Minute + 200*time.Millisecond
	f.do("GET", "/readyz", "").want(t, 200, "status", "degraded", "store", "ok", "drainers", "none",
		"detail", "jobs are accepted, but none depart: no drainer has used this store for 3m0s; start one")
	e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	f.serveOver(e, api.Options{})
	f.do("GET", "/readyz", "").want(t, 200, "status", "degraded", "drainers", "none",
		"detail", "jobs are accepted, but none depart: no drainer has ever used this store; start one")
}

// A jump of the clock of the store's host is told for a minute.
func TestReadinessAfterAJumpOfTheClock(t *testing.T) {
	f := serve(t, api.Options{})
	f.engine.jumped = queue.JumpLasts - time.Second
	f.do("GET", "/readyz", "").want(t, 200, "status", "degraded", "store", "clock", "detail",
		"the clock of the store's host jumped 59s ago, and schedules and expiries follow it; check its time "+
			"synchronization (timedatectl)")
	f.engine.jumped = queue.JumpLasts
	f.do("GET", "/readyz", "").want(t, 200, "status", "ready", "store", nil)
}

// Where a drainer is in the same process, readiness says which of its queues hangs.
func TestReadinessTellsWhatHangs(t *testing.T) {
	var hangs error
	f := serve(t, api.Options{Hanging: func() error { return hangs }})
	f.do("GET", "/readyz", "").want(t, 200, "status", "ready", "drainers", nil)
	hangs = errors.New("queue a hangs")
	f.do("GET", "/readyz", "").want(
		t, 200, "status", "degraded", "store", "ok", "drainers", "hanging", "detail", "queue a hangs",
	)
}
