package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/leaky"
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

// finds searches to the end and compares the jobs, as QUEUE/ID.
func finds(t *testing.T, do func(path string) *answer, query string, want ...string) (pages int) {
	t.Helper()
	var got []string
	for after := ""; pages < 1000; pages++ {
		a := do("/v1/jobs?" + query + "&after=" + url.QueryEscape(after))
		a.want(t, 200)
		list, _ := a.body["jobs"].([]any)
		for _, j := range list {
			job, _ := j.(map[string]any)
			got = append(got, fmt.Sprint(job["queue"], "/", job["id"]))
		}
		if after, _ = a.body["next"].(string); after == "" {
			break
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("?%s found %v, want %v", query, got, want)
	}
	return pages + 1
}

func TestFindJobs(t *testing.T) {
	f, e := keeping(t)
	bury(t, e, "d", "550 no such user", 3)
	if _, err := e.Put(t.Context(), queue.Spec{Name: "sms", Rate: leaky.Unlimited}, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Append(t.Context(), []queue.Job{
		{Queue: "sms", ID: "d1", Lane: "a.example", Payload: []byte("1")},
		{Queue: "sms", ID: "x", Lane: "a.example", Payload: []byte("1")},
	}); err != nil {
		t.Fatal(err)
	}
	do := func(path string) *answer { return f.do("GET", path, "") }
	finds(t, do, "id=d1", "email/d1", "sms/d1")
	finds(t, do, "id=d")
	finds(t, do, "prefix=d", "email/d0", "email/d1", "email/d2", "sms/d1")
	if pages := finds(t, do, "prefix=d&limit=1", "email/d0", "email/d1", "email/d2", "sms/d1"); pages < 4 {
		t.Errorf("%d pages of at most one job", pages)
	}
	finds(t, do, "lane=a.example", "sms/d1", "sms/x")
	finds(t, do, "lane=a.example&prefix=d", "sms/d1")
	do("/v1/jobs?id=d1").want(t, 200)
	for query, field := range map[string]string{
		"": "id", "id=a&prefix=a": "prefix", "prefix=a%20b": "prefix", "id=a%20b": "id", "id=a&limit=501": "limit",
		"id=a&after=x": "after", "id=a&after=7.x": "after", "id=a&after=0.x": "after", "id=a&id=b": "id",
	} {
		do("/v1/jobs?"+query).want(t, 400, "field", field)
	}
}

// A caller finds only jobs of the queues that they may see, and payloads are never shown.
func TestFindOnlyOwnJobs(t *testing.T) {
	s := secure(t, api.Options{})
	s.by(s.operator, "POST", "/v1/queues/"+betaChild+"/jobs", `{"id":"j1","payload":"secret text"}`).want(t, 202)
	for _, c := range []struct {
		token string
		want  []string
	}{
		{s.with("acme", auth.View), []string{acmeQueue + "/j1"}},
		{s.with("beta", auth.View), []string{betaQueue + "/j1", betaChild + "/j1"}},
		{s.operator, []string{acmeQueue + "/j1", betaQueue + "/j1", betaChild + "/j1"}},
		{s.token("", auth.Grant{Role: auth.View, Prefix: betaQueue}), []string{betaQueue + "/j1"}},
	} {
		for _, query := range []string{"id=j1", "prefix=j", "prefix=j&limit=1"} {
			finds(t, func(path string) *answer {
				a := s.by(c.token, "GET", path, "")
				if strings.Contains(a.text, "secret text") {
					t.Errorf("%s shows a payload", path)
				}
				return a
			}, query, c.want...)
		}
	}
	s.by(s.with("acme", auth.Produce), "GET", "/v1/jobs?id=j1", "").want(t, 403)
}

func TestListEndedJobs(t *testing.T) {
	f, e := keeping(t)
	for _, id := range []string{"a", "b"} {
		if _, err := e.Append(t.Context(), []queue.Job{{Queue: "email", ID: id, Payload: []byte("1")}}); err != nil {
			t.Fatal(err)
		}
		f.do("POST", jobs+"/"+id+"/cancel", "").want(t, 200)
	}
	a := f.do("GET", queues+"/email/jobs?state=cancelled", "")
	list, _ := a.body["jobs"].([]any)
	if len(list) != 2 || list[0].(map[string]any)["id"] != "b" || list[0].(map[string]any)["ended_at"] == nil {
		t.Errorf("listed %s", a.text)
	}
	f.do("GET", queues+"/email/jobs?state=deferred", "").want(t, 400, "field", "state")
	f.do("GET", queues+"/email/jobs?state=delivered&lane=a", "").want(t, 400, "field", "lane")
}
