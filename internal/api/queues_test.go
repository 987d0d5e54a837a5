package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

const email = "/v1/queues/email"

func TestQueueLifecycle(t *testing.T) {
	f := serve(t, api.Options{})
	a := f.do(
		"PUT", "/v1/queues/sms", `{"rate":"2/m","capacity":5,"deliver":{"http":{"url":"http://127.0.0.1:1/"}}}`,
		"If-None-Match", "*",
	)
	a.want(
		t, 201, "name", "sms", "rate", "2/m", "burst", 1, "capacity", 5, "lease", "30s", "revision", 2,
		"paused", false, "warnings", nil,
	)
	if a.header.Get("ETag") != `"2"` || a.header.Get("Location") != "/v1/queues/sms" {
		t.Errorf("headers %v", a.header)
	}
	f.do(
		"PUT", "/v1/queues/sms", `{"rate":"2/m"}`, "If-None-Match", "*",
	).want(t, 412, "reason", "revision_mismatch", "revision", 2)
	f.do("PUT", "/v1/queues/sms", `{"rate":"3/m"}`, "If-Match", `"1"`).want(t, 412, "revision", 2)
	f.do("PUT", "/v1/queues/sms", `{"rate":"3/m"}`, "If-Match", `"1", "2"`).want(t, 200, "revision", 3, "capacity", 10000)
	f.do("PUT", "/v1/queues/sms", `{"rate":"3/m"}`, "If-Match", `"1", "2"`).want(t, 412, "revision", 3)
	f.do("PUT", "/v1/queues/sms", `{"name":"sms","rate":"4/m"}`, "If-Match", "*").want(t, 200, "revision", 4)
	f.do("PUT", "/v1/queues/none", `{"rate":"4/m"}`).want(t, 201, "warnings", []any{
		"the queue has neither deliver nor pull, so its jobs will wait; only a parent of other queues needs " +
			"neither",
	})
	f.do("GET", "/v1/queues/none", "").want(t, 200, "warnings", nil)
	f.do("PUT", "/v1/queues/none", `{"rate":"4/m","pull":true}`).want(t, 200, "warnings", nil)
	f.do("DELETE", "/v1/queues/none", "").want(t, 204)
	f.do("PUT", "/v1/queues/new", `{"rate":"4/m"}`, "If-Match", "*").want(t, 412)
	f.do("PUT", "/v1/queues/new", `{"rate":"4/m"}`, "If-Match", `"9"`).want(t, 412, "revision", 0)
	f.do("PUT", "/v1/queues/sms", `{"rate":"4/m"}`, "If-Match", `W/"4"`).want(t, 400, "field", "If-Match")
	f.do("PUT", "/v1/queues/sms", `{"rate":"4/m"}`, "If-None-Match", `"4"`).want(t, 400, "field", "If-None-Match")
	f.do(
		"PUT", "/v1/queues/sms", `{"rate":"4/m"}`, "If-None-Match", `*`, "If-Match", "*",
	).want(t, 400, "field", "If-Match")
	f.do("GET", "/v1/queues/sms", "").want(t, 200, "revision", 4)

	f.do("POST", "/v1/queues/sms/pause", `{"reason":"the provider is down"}`).want(
		t, 200, "paused", true, "pause",
		map[string]any{"reason": "the provider is down", "since": "2026-05-04T03:02:01.123456Z"},
	)
	f.do("POST", "/v1/queues/sms/resume", "").want(t, 200, "paused", false, "pause", nil)
	f.do("POST", "/v1/queues/sms/pause", "").want(t, 200, "paused", true)
	f.do("POST", "/v1/queues/sms/pause", `{"raison":""}`).want(t, 400, "reason", "unknown_field", "field", "raison")
	f.do("POST", "/v1/queues/sms/pause", `{"reason":"a","reason":"b"}`).want(
		t, 400, "reason", "duplicate_field", "field", "reason",
	)
	f.do("POST", "/v1/queues/sms/pause", `{"reason":1}`).want(t, 400, "reason", "invalid_field", "field", "reason")
	f.do("POST", "/v1/queues/sms/pause", `{"reason":`).want(t, 400, "reason", "invalid_json")
	f.do(
		"POST", "/v1/queues/sms/pause", `{"reason":"`+strings.Repeat("x", 600)+`"}`,
	).want(t, 413, "field", "reason", "limit", 512)
	f.do("POST", "/v1/queues/sms/pause", strings.Repeat(" ", 5000)).want(t, 413, "limit", 4096)
	f.do("POST", "/v1/queues/sms/pause", "x", "Content-Type", "text/plain").want(t, 415)
	f.do("POST", "/v1/queues/none/pause", "").want(t, 404, "reason", "unknown_queue")

	f.do("POST", "/v1/queues/sms/jobs", `{"payload":1,"id":"a/b c"}`).want(t, 400)
	f.do("POST", "/v1/queues/sms/jobs", `{"payload":1,"id":"a/b?c","cost":2}`).want(t, 202)
	f.do("GET", "/v1/queues/sms/jobs/a%2Fb%3Fc", "").want(
		t, 200, "id", "a/b?c", "state", "waiting", "position", 1, "cost", 2, "attempts", 0,
	)
	f.do("GET", "/v1/queues/sms/jobs/b", "").want(t, 404, "reason", "unknown_job", "id", "b")
	f.do("GET", "/v1/queues/none/jobs/b", "").want(t, 404, "reason", "unknown_queue")
	f.do("GET", "/v1/queues/sms/jobs/"+strings.Repeat("x", 200), "").want(t, 400, "field", "id")
	f.do("POST", email+"/jobs", `{"payload":2,"id":"a/b?c"}`).want(t, 202) // the same id in another queue is another job

	f.do("DELETE", "/v1/queues/sms", "", "If-Match", `"3"`).want(t, 412)
	f.do("DELETE", "/v1/queues/sms", "").want(t, 409, "reason", "not_empty")
	f.do("DELETE", "/v1/queues/sms?force=perhaps", "").want(t, 400, "field", "force")
	f.do("DELETE", "/v1/queues/sms?force=true", "", "If-Match", `"4"`).want(t, 204)
	f.do("DELETE", "/v1/queues/sms", "").want(t, 404, "reason", "unknown_queue")
	f.do("GET", "/v1/queues/sms", "").want(t, 404, "reason", "unknown_queue")
	if f.do("HEAD", email, "").status != 200 {
		t.Error("HEAD is not served")
	}
	f.do("PATCH", email, "").want(t, 405)
	f.do("GET", "/v1/drainers", "").want(t, 200, "drainers", []any{map[string]any{
		"id": "c1", "name": "host:1", "version": "v1", "last_seen": "2026-05-04T03:02:01.123456Z", "share": 1.,
	}})
	f.do("GET", "/readyz", "").want(t, 200, "status", "ready")
	f.do("GET", "/metrics", "").want(t, 404)
}

// A change that was made is never said not to have been, though the queue cannot be
// read after it.
func TestChangedButNotRead(t *testing.T) {
	for _, err := range []error{queue.ErrUnavailable, queue.ErrUnknownQueue, queue.ErrOutcomeUnknown, queue.ErrCorrupt} {
		f := serve(t, api.Options{})
		f.engine.readErr = fmt.Errorf("redis 10.0.0.1: %w", err)
		made := f.do("PUT", "/v1/queues/sms", `{"rate":"2/m"}`)
		made.want(t, 201, "name", "sms", "rate", "2/m", "capacity", 10000, "revision", 2, "stats", nil, "paused", nil)
		if made.header.Get("ETag") != `"2"` || made.header.Get("Location") != "/v1/queues/sms" {
			t.Errorf("%v: headers %v", err, made.header)
		}
		changed := f.do("PUT", "/v1/queues/sms", `{"rate":"3/m"}`, "If-Match", `"2"`)
		changed.want(t, 200, "rate", "3/m", "revision", 3, "stats", nil)
		if changed.header.Get("ETag") != `"3"` {
			t.Errorf("%v: headers %v", err, changed.header)
		}
		for _, do := range []struct{ what, done string }{
			{"pause", "the queue was paused"}, {"resume", "the queue was resumed"},
		} {
			a := f.do("POST", "/v1/queues/sms/"+do.what, "")
			a.want(t, 504, "reason", "outcome_unknown")
			if detail := fmt.Sprint(a.body["detail"]); !strings.HasPrefix(detail, do.done) {
				t.Errorf("%v: %s", err, detail)
			}
			if paused := f.engine.queues["sms"].info.Pause.On(); paused != (do.what == "pause") {
				t.Errorf("%s: paused is %v", do.what, paused)
			}
		}
		f.do("POST", "/v1/queues/none/pause", "").want(t, 404, "reason", "unknown_queue")
	}
}

// overtaken is an engine in which somebody else changes a queue right after each Put.
type overtaken struct{ *engine }

func (o overtaken) Put(ctx context.Context, s queue.Spec, expect int64) (queue.PutResult, error) {
	r, err := o.engine.Put(ctx, s, expect)
	if err == nil {
		s.Capacity = 77
		_, err = o.engine.Put(ctx, s, r.Revision)
	}
	return r, err
}

// The answer to a PUT is what that PUT made, not what came after it.
func TestPutOvertaken(t *testing.T) {
	f := serve(t, api.Options{})
	f.serveOver(overtaken{f.engine}, api.Options{})
	a := f.do("PUT", email, `{"rate":"2/m"}`)
	a.want(t, 200, "capacity", 10000, "revision", 2)
	if a.header.Get("ETag") != `"2"` {
		t.Errorf("ETag %s", a.header.Get("ETag"))
	}
	f.do("GET", email, "").want(t, 200, "capacity", 77, "revision", 3)
}

func TestListQueues(t *testing.T) {
	f := serve(t, api.Options{})
	for i := range 7 {
		f.do("PUT", fmt.Sprintf("/v1/queues/q%d", i), `{"rate":"1/s"}`).want(t, 201)
	}
	var names []string
	path := "/v1/queues?limit=3"
	for pages := 1; path != ""; pages++ {
		a := f.do("GET", path, "")
		a.want(t, 200)
		for _, q := range a.body["queues"].([]any) {
			names = append(names, q.(map[string]any)["name"].(string))
		}
		link := a.header.Get("Link")
		path, _, _ = strings.Cut(strings.TrimPrefix(link, "<"), ">")
		if (a.body["next"] == nil) != (path == "") || pages > 3 {
			t.Fatalf("page %d: next %v, link %s", pages, a.body["next"], link)
		}
	}
	if got := strings.Join(names, " "); got != "email q0 q1 q2 q3 q4 q5 q6" {
		t.Errorf("listed %s", got)
	}
	f.do("GET", "/v1/queues?limit=0", "").want(t, 400, "field", "limit")
	f.do("GET", "/v1/queues?limit=1001", "").want(t, 400, "field", "limit")
	f.do("GET", "/v1/queues?limit=x", "").want(t, 400, "field", "limit")
	f.do("GET", "/v1/queues?after=zzz", "").want(t, 200, "queues", []any{})
}

func TestBadSpecs(t *testing.T) {
	f := serve(t, api.Options{ValidateTarget: func(_ string, raw json.RawMessage) error {
		if strings.Contains(string(raw), "gopher") {
			return fmt.Errorf("deliver.http.url: %w", &invalid.Error{
				Field: "deliver.http.url", Reason: "must be http or https",
			})
		}
		if strings.Contains(string(raw), "odd") {
			return io.ErrNoProgress
		}
		return nil
	}})
	for _, c := range []struct{ body, field, detail string }{
		{`{"rate":"0/s"}`, "rate", "above zero"},
		{`{"rate":"-1/s"}`, "rate", "above zero"},
		{`{"rate":"1e9/s"}`, "rate", "want NUMBER/s"},
		{`{"rate":"1000000000/s"}`, "rate", "faster"},
		{`{"rate":"abc"}`, "rate", "want NUMBER/s"},
		{`{"rate":"10/fortnight"}`, "rate", "want NUMBER/s"},
		{`{"rate":14}`, "rate", "must be"},
		{`{}`, "rate", "missing"},
		{`{"rate":"1/s","capacity":0}`, "capacity", "from 1"},
		{`{"rate":"1/s","capacity":-5}`, "capacity", "from 1"},
		{`{"rate":"1/s","capacity":1.5}`, "capacity", ""},
		{`{"rate":"1/s","burst":0}`, "burst", ""},
		{`{"rate":"1/s","lease":"soon"}`, "lease", "duration"},
		{`{"rate":"1/s","lease":"1ms"}`, "lease", "from 1s"},
		{`{"rate":"1/s","rate":"2/s"}`, "rate", "twice"},
		{`{"rate":"1/s","retry":{"max_attempts":0}}`, "retry.max_attempts", "from 1"},
		{`{"rate":"1/s","retry":{"jitter":"some"}}`, "retry.jitter", "full"},
		{`{"rate":"1/s","retry":{"times":3}}`, "retry.times", "not a field"},
		{`{"rate":"1/s","overflow":"maybe"}`, "overflow", "reject or defer"},
		{`{"rate":"1/s","overflow":null}`, "overflow", "null"},
		{`{"rate":"1/s","deferred":[]}`, "deferred", "an object"},
		{`{"rate":"1/s","deferred":{"max_age":"25h"}}`, "deferred.max_age", "longer than retention.for"},
		{`{"rate":"1/s","deferred":{"max_age":3600}}`, "deferred.max_age", "such as"},
		{`{"rate":"1/s","deferred":{"low_water":"half"}}`, "deferred.low_water", "a number"},
		{`{"rate":"1/s","deferred":{"low_water":1}}`, "deferred.low_water", "between 0 and 1"},
		{`{"rate":"1/s","deferred":{"max_jobs":0}}`, "deferred.max_jobs", "from 1"},
		{`{"rate":"1/s","deferred":{"readmit_between":"always"}}`, "deferred.readmit_between", "two times of day"},
		{`{"rate":"1/s","deferred":{"readmit_between":"22:00-06:00","timezone":"Berlin"}}`, "deferred.timezone", "IANA"},
		{`{"rate":"1/s","deferred":{"readmit":"22:00-06:00"}}`, "deferred.readmit", "not a field"},
		{`{"rate":"1/s","adapt":{}}`, "adapt", "floor"},
		{`{"rate":"1/s","adapt":{"floor":"2/s","ceiling":"20/s"}}`, "rate", "from adapt.floor"},
		{`{"rate":"1/s","circuit":{"failures":0}}`, "circuit.failures", "from 1"},
		{`{"rate":"1/s","on_unknown":"ask"}`, "on_unknown", "hold"},
		{`{"rate":"1/s","adopt":{}}`, "adopt", "not a field"},
		{`{"rate":"1/s","name":"sms"}`, "name", "URL"},
		{`{"rate":"1/s","name":"a b"}`, "name", "a queue name"},
		{`{"rate":"1/s","deliver":{"http":{"url":"gopher://x"}}}`, "deliver.http.url", "http or https"},
		{`{"rate":"1/s","deliver":{"odd":1}}`, "deliver", ""},
		{`not JSON`, "spec", "JSON"},
		{``, "spec", ""},
		{`[]`, "spec", "object"},
	} {
		a := f.do("PUT", email, c.body, "Content-Type", "application/json")
		a.want(t, 400, "field", c.field)
		if detail, _ := a.body["detail"].(string); !strings.Contains(detail, c.detail) {
			t.Errorf("%s: detail %q does not say %q", c.body, detail, c.detail)
		}
	}
	f.do(
		"PUT", email, `{"rate":"1/s","deliver":"`+strings.Repeat("x", queue.MaxSpecBytes)+`"}`,
	).want(t, 413, "limit", queue.MaxSpecBytes)
	f.do("PUT", email, `{"rate":"1/s"}`, "Content-Type", "application/yaml").want(t, 415)
	f.do("GET", email, "").want(t, 200, "rate", "14/s", "revision", 1)
}

func TestMetricsPage(t *testing.T) {
	f := serve(t, api.Options{Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = io.WriteString(w, "a_metric 1\n")
	})})
	if a := f.do("GET", "/metrics", ""); a.status != 200 || a.text != "a_metric 1\n" {
		t.Errorf("%d %s", a.status, a.text)
	}
}
