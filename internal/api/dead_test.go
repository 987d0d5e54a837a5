package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

const queues = "/v1/queues"

// keeping is a real engine with a queue email, behind the API.
func keeping(t *testing.T) (*fixture, queue.Engine) {
	t.Helper()
	e, _ := stored(t)
	f := serve(t, api.Options{})
	f.serveOver(e, api.Options{})
	if _, err := e.Put(t.Context(), queue.Spec{Name: "email", Rate: leaky.Unlimited}, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	return f, e
}

// bury makes n jobs dead for a reason.
func bury(t *testing.T, e queue.Engine, prefix, reason string, n int) {
	t.Helper()
	var list []queue.Job
	for i := range n {
		list = append(list, queue.Job{Queue: "email", ID: fmt.Sprint(prefix, i), Payload: []byte("1")})
	}
	if _, err := e.Append(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for number := uint64(time.Now().UnixNano()); n > 0; number++ {
		r, err := e.Reserve(t.Context(), queue.ReserveRequest{
			Client: queue.Client{ID: "c"}, Number: number, Max: queue.MaxReserve,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range r.Jobs {
			s := queue.Settlement{
				Lease: queue.Lease{Queue: j.Queue, ID: j.ID, Fence: j.Fence}, Verdict: queue.Bury, Reason: reason,
			}
			if _, err := e.Settle(t.Context(), []queue.Settlement{s}); err != nil {
				t.Fatal(err)
			}
		}
		n -= len(r.Jobs)
	}
}

// A job is told with what it carries, and a bounce in fields.
func TestJobContent(t *testing.T) {
	f, e := keeping(t)
	bury(t, e, "d", "sent to nobody; refused: ann@example.com (550 5.1.1 no such user), bob@example.com (554 spam)", 25)
	wanted := []any{
		map[string]any{"address": "ann@example.com", "code": 550., "status": "5.1.1", "text": "no such user"},
		map[string]any{"address": "bob@example.com", "code": 554., "text": "spam"},
	}
	f.do("GET", jobs+"/d0", "").want(
		t, 200, "payload", 1, "payload_base64", nil, "content_type", "application/json", "headers", nil, "bounces", wanted,
	)
	f.do(
		"POST", jobs,
		`{"payload_base64":"AP8=","content_type":"application/octet-stream","headers":{"x-tenant":"7"},"id":"w1"}`,
	).want(t, 202)
	f.do("GET", jobs+"/w1", "").want(
		t, 200, "payload", nil, "payload_base64", "AP8=", "content_type", "application/octet-stream", "headers",
		map[string]any{"x-tenant": "7"}, "bounces", nil,
	)
	f.do("POST", jobs, `{"payload":{"n":123456789012345678901234567890, "s":"a"},"id":"w2"}`).want(t, 202)
	if a := f.do("GET", jobs+"/w2", ""); !strings.Contains(
		a.text, `"payload":{"n":123456789012345678901234567890,"s":"a"}`,
	) {
		t.Error(a.text)
	}
	f.do("POST", jobs, `{"payload_base64":"","content_type":"text/plain","id":"w3"}`).want(t, 202)
	f.do("GET", jobs+"/w3", "").want(t, 200, "payload_base64", "", "content_type", "text/plain")

	if a := f.do("GET", jobs+"?state=dead", ""); strings.Contains(a.text, "payload") ||
		strings.Count(a.text, `"bounces"`) != 25 {
		t.Error(a.text)
	}
	seen, after := 0, ""
	for _, size := range []int{20, 5} {
		a := f.do("GET", jobs+"?state=dead&payload=true"+after, "")
		if n := strings.Count(a.text, `"payload":1`); n != size {
			t.Errorf("a page of %d payloads, want %d: %s", n, size, a.text)
		}
		seen += size
		if next, _ := a.body["next"].(string); next != "" {
			after = "&after=" + url.QueryEscape(next)
		} else if seen != 25 {
			t.Errorf("it ended after %d", seen)
		}
	}
	f.do("GET", jobs+"?state=dead&payload=true&limit=20", "").want(t, 200)
	f.do("GET", jobs+"?state=dead&payload=true&limit=21", "").want(t, 400, "field", "limit")
	f.do("GET", jobs+"?state=dead&payload=yes", "").want(t, 400, "field", "payload")
}

func TestListJobs(t *testing.T) {
	f, e := keeping(t)
	bury(t, e, "d", "550 no such user", 5)
	bury(t, e, "e", "421 busy", 2)
	f.do("POST", jobs, `{"payload":1,"id":"w1","lane":"a&b"}`).want(t, 202)
	f.do("POST", jobs, `{"payload":1,"id":"w2"}`).want(t, 202)
	listed := func(query string) (ids []string) {
		t.Helper()
		for after := ""; ; {
			a := f.do("GET", jobs+"?"+query+"&after="+url.QueryEscape(after), "")
			a.want(t, 200)
			page := a.body
			for _, j := range page["jobs"].([]any) {
				ids = append(ids, j.(map[string]any)["id"].(string))
			}
			next, more := page["next"].(string)
			if !more {
				return ids
			}
			after = next
		}
	}
	for query, want := range map[string]string{
		"state=dead": "d0 d1 d2 d3 d4 e0 e1", "state=dead&limit=2": "d0 d1 d2 d3 d4 e0 e1",
		"state=dead&reason=busy": "e0 e1", "state=dead&reason=no+such&limit=1": "d0 d1 d2 d3 d4",
		"state=dead&reason=nothing&limit=1": "", "state=waiting": "w2 w1", "state=waiting&lane=a%26b": "w1",
		"state=waiting&lane=": "w2", "state=scheduled": "", "state=leased": "",
	} {
		if got := strings.Join(listed(query), " "); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	for query, field := range map[string]string{
		"": "state", "state=deferred": "state", "state=x": "state", "state=dead&limit=0": "limit",
		"state=dead&limit=501": "limit", "state=dead&lane=a": "lane",
		"state=waiting&reason=a": "reason", "state=dead&after=x": "after",
	} {
		f.do("GET", jobs+"?"+query, "").want(t, 400, "reason", "invalid_field", "field", field)
	}
	if a := f.do("GET", queues+"/email/jobs", ""); !strings.HasPrefix(
		fmt.Sprint(a.body["detail"]), "is missing; give a state, such as ?state=waiting",
	) {
		t.Errorf("without a state: %v", a.body["detail"])
	}
	f.do("GET", "/v1/queues/none/jobs?state=dead", "").want(t, 404, "reason", "unknown_queue")
}

func TestDeadJobs(t *testing.T) {
	f, e := keeping(t)
	bury(t, e, "d", "550 no such user", 4)
	bury(t, e, "e", "421 busy", 3)
	f.do("POST", jobs, `{"payload":1,"id":"w"}`).want(t, 202)
	f.do("POST", jobs+"/d0/replay", "").want(t, 200, "id", "d0", "state", "waiting")
	f.do("DELETE", jobs+"/d1", "").want(t, 204)
	for _, do := range []func(id string) *answer{
		func(id string) *answer {
			return f.do("POST", jobs+"/"+id+"/replay", "")
		}, func(id string) *answer { return f.do("DELETE", jobs+"/"+id, "") },
	} {
		do("d0").want(t, 409, "reason", "not_dead", "id", "d0", "state", "waiting")
		do("d1").want(t, 404, "reason", "unknown_job", "id", "d1")
		do("a%20b").want(t, 400, "field", "id")
	}
	f.do("POST", queues+"/email/replay", `{"reason":"busy","dry_run":true}`).want(
		t, 200, "looked_at", 5, "matched", 3, "replayed", nil, "next", nil,
	)
	f.do("POST", queues+"/email/replay", `{"before":"2020-01-01T00:00:00Z"}`).want(t, 200, "matched", 0, "replayed", nil)
	f.do(
		"POST", queues+"/email/replay", `{"ids":["d2","w","nobody"]}`,
	).want(t, 200, "matched", 3, "replayed", 1, "not_dead", 2)
	f.do("POST", queues+"/email/forget", `{"reason":"busy","before":"2100-01-01T00:00:00Z"}`).want(
		t, 200, "looked_at", 4, "matched", 3, "forgotten", 3, "next", nil,
	)
	f.do("POST", queues+"/email/replay", "").want(t, 200, "looked_at", 1, "matched", 1, "replayed", 1)
	if i, err := e.Get(t.Context(), "email"); err != nil || i.Dead != 0 || i.Replayed != 3 || i.Waiting != 4 {
		t.Errorf("%+v, %v", i, err)
	}
	f.do(
		"POST", queues+"/email/replay", `{"ids":["a"],"reason":"b"}`,
	).want(t, 400, "reason", "invalid_request", "field", "ids")
	f.do("POST", queues+"/email/replay", `{"ids":["a b"]}`).want(t, 400, "field", "ids[0]")
	f.do("POST", queues+"/email/replay", `{"id":"a"}`).want(t, 400, "reason", "unknown_field")
	f.do("POST", queues+"/email/forget", `{"after":"x"}`).want(t, 400, "field", "after")
	f.do("POST", queues+"/none/forget", "{}").want(t, 404, "reason", "unknown_queue")
}

// text is an answer's body as JSON.
func text(a *answer) string {
	b, err := json.Marshal(a.body)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func TestDeadQueues(t *testing.T) {
	f, e := keeping(t)
	bury(t, e, "d", "550 no such user", 3)
	if a := f.do("GET", "/v1/dead", ""); !strings.Contains(text(a), `"dead":3,"oldest":`) ||
		strings.Contains(text(a), "gone") {
		t.Errorf("got %s", text(a))
	}
	f.do("GET", queues+"/email/jobs?state=dead&since=2100-01-01T00:00:00Z", "").want(t, 200, "next", nil)
	if a := f.do(
		"GET", queues+"/email/jobs?state=dead&since=2020-01-01T00:00:00Z&before=2100-01-01T00:00:00Z", "",
	); strings.Count(text(a), `"answer":"550`) != 3 {
		t.Errorf("got %s", text(a))
	}
	f.do("GET", queues+"/email/jobs?state=dead&since=x", "").want(t, 400, "field", "since")
	f.do("GET", queues+"/email/jobs?state=waiting&before=2020-01-01T00:00:00Z", "").want(t, 400, "field", "before")
	f.do("POST", queues+"/email/forget", `{"since":"2100-01-01T00:00:00Z"}`).want(t, 200, "matched", 0)
	f.do("POST", queues+"/email/forget", `{"since":"2020-01-01T00:00:00Z","dry_run":true}`).want(t, 200, "matched", 3)
	if err := e.Delete(t.Context(), "email", queue.AnyRevision, true); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/dead", "/v1/dead?queue=email", "/v1/dead?limit=1"} {
		if a := f.do("GET", path, ""); !strings.Contains(text(a), `"gone":true`) {
			t.Errorf("%s: %s", path, text(a))
		}
	}
	for _, path := range []string{"/v1/dead?after=email", "/v1/dead?queue=emai", "/v1/dead?queue=emaill"} {
		if a := f.do("GET", path, ""); text(a) != `{"queues":[]}` {
			t.Errorf("%s: %s", path, text(a))
		}
	}
	f.do("GET", "/v1/dead?limit=0", "").want(t, 400, "field", "limit")
	f.do("GET", "/v1/dead?queue=a%20b", "").want(t, 400, "field", "queue")
	f.do("GET", jobs+"/d0", "").want(t, 200, "state", "dead", "reason", "550 no such user")
	f.do("POST", jobs+"/d0/replay", "").want(t, 404, "reason", "unknown_queue", "id", "d0")
	f.do("DELETE", jobs+"/d0", "").want(t, 204)
	f.do("POST", queues+"/email/forget", "{}").want(t, 200, "matched", 2, "forgotten", 2)
	f.do("GET", jobs+"/d1", "").want(t, 404, "reason", "unknown_queue")
}

// There is no room: the job stays dead, and the answer says so.
func TestReplayWithoutRoom(t *testing.T) {
	f, e := keeping(t)
	bury(t, e, "d", "busy", 2)
	f.do("PUT", queues+"/email", `{"rate":"unlimited","capacity":1}`).want(t, 200)
	f.do("POST", queues+"/email/replay", "{}").want(t, 200, "matched", 2, "replayed", 1, "no_room", 1)
	f.do("POST", jobs+"/d1/replay", "").want(t, 429, "reason", "full", "id", "d1")
	f.do("GET", jobs+"/d1", "").want(t, 200, "state", "dead")
}

func TestPurge(t *testing.T) {
	f, e := keeping(t)
	later := `"not_before":"` + time.Now().Add(time.Hour).Format(time.RFC3339) + `"`
	for i, body := range []string{`"lane":"x"`, `"lane":"y"`, `"cost":1`, later, `"lane":"x",` + later} {
		f.do("POST", jobs, fmt.Sprintf(`{"payload":1,"id":"j%d",%s}`, i, body)).want(t, 202)
	}
	const purge = queues + "/email/purge"
	f.do("POST", purge, `{"dry_run":true}`).want(t, 200, "purged", 5)
	f.do("POST", purge, `{"dry_run":true,"lane":"x"}`).want(t, 200, "purged", 1)
	f.do("POST", purge, `{"lane":"x"}`).want(t, 200, "purged", 1, "next", nil)
	f.do("POST", purge, `{"states":["scheduled"]}`).want(t, 200, "purged", 2)
	f.do("POST", purge, "").want(t, 200, "purged", 2, "next", nil)
	if i, err := e.Get(t.Context(), "email"); err != nil || i.Size() != 0 || i.Cancelled != 5 {
		t.Errorf("%+v, %v", i, err)
	}
	f.do("POST", purge, `{"states":["dead"]}`).want(t, 400, "field", "states")
	f.do("POST", purge, `{"states":["scheduled"],"lane":"x"}`).want(t, 400, "field", "lane")
	f.do("POST", purge, `{"after":"x"}`).want(t, 400, "field", "after")
	f.do("POST", purge, `{"after":"waiting.x"}`).want(t, 400, "field", "after")
	f.do("POST", queues+"/none/purge", "{}").want(t, 404, "reason", "unknown_queue")
}

// What is too much for one request is done by following next.
func TestPurgeInParts(t *testing.T) {
	f, e := keeping(t)
	if _, err := e.Put(
		t.Context(), queue.Spec{Name: "email", Rate: leaky.Unlimited, Capacity: 20_000}, queue.AnyRevision,
	); err != nil {
		t.Fatal(err)
	}
	for i := range 23 {
		var list []queue.Job
		for k := range 500 {
			j := queue.Job{Queue: "email", ID: fmt.Sprint(i, "-", k), Payload: []byte("1")}
			if i < 2 {
				j.NotBefore = time.Now().Add(time.Hour)
			}
			list = append(list, j)
		}
		if _, err := e.Append(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	body, sum := "{}", 0.0
	for range 5 {
		a := f.do("POST", queues+"/email/purge", body)
		a.want(t, 200)
		done := a.body
		sum += done["purged"].(float64)
		next, more := done["next"].(string)
		if !more {
			break
		}
		f.do("POST", jobs, `{"payload":1}`).want(t, 202)
		body = fmt.Sprintf(`{"after":%q}`, next)
	}
	if i, err := e.Get(t.Context(), "email"); err != nil || sum != 11_500 || i.Cancelled != 11_500 || i.Waiting == 0 {
		t.Errorf("%v purged; %+v, %v", sum, i, err)
	}
}

// failing is an engine whose purges and replays fail from some call on.
type failing struct {
	queue.Engine
	left int
}

func (e *failing) fails() error {
	if e.left--; e.left < 0 {
		return queue.ErrUnavailable
	}
	return nil
}

func (e *failing) Purge(ctx context.Context, p queue.PurgeRequest) (queue.Purged, error) {
	if err := e.fails(); err != nil {
		return queue.Purged{}, err
	}
	return e.Engine.Purge(ctx, p)
}

func (e *failing) Replay(ctx context.Context, name string, ids []string) ([]queue.ReplayOutcome, error) {
	if err := e.fails(); err != nil {
		return nil, err
	}
	return e.Engine.Replay(ctx, name, ids)
}

// What fails midway tells what was done, and where to go on; what fails at once is refused.
func TestWhatFailsMidwayTellsWhatWasDone(t *testing.T) {
	_, e := keeping(t)
	bury(t, e, "d", "busy", 1200)
	broken := &failing{Engine: e}
	f := serve(t, api.Options{})
	f.serveOver(broken, api.Options{})
	const replay, purge = queues + "/email/replay", queues + "/email/purge"

	f.do("POST", replay, "{}").want(t, 503)
	broken.left = 2
	a := f.do("POST", replay, "{}")
	a.want(t, 200, "matched", 1000, "replayed", 1000)
	f.do("POST", replay, fmt.Sprintf(`{"after":%q}`, a.body["next"])).want(t, 503)
	broken.left = 1
	f.do("POST", replay, fmt.Sprintf(`{"after":%q}`, a.body["next"])).want(t, 200, "replayed", 200, "next", nil)

	f.do("POST", purge, "{}").want(t, 503)
	broken.left = 2 // with a page of what is scheduled, which is none
	a = f.do("POST", purge, "{}")
	a.want(t, 200, "purged", 500)
	f.do("POST", purge, fmt.Sprintf(`{"after":%q}`, a.body["next"])).want(t, 503)
	broken.left = 10
	f.do("POST", purge, fmt.Sprintf(`{"after":%q}`, a.body["next"])).want(t, 200, "purged", 700, "next", nil)
}
