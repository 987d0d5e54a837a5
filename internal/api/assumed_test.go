package api_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/assign"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/test/attend"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

// assuming returns the path of a forecast with settings.
func assuming(name string, settings ...string) string {
	return "/v1/queues/" + name + "/forecast?" + url.Values{"set": settings}.Encode()
}

// finish returns how long after now a forecast ends; -1 is never.
func finish(t *testing.T, body map[string]any, now any) time.Duration {
	t.Helper()
	if body["finish_at"] == nil {
		return -1
	}
	from, err1 := time.Parse(time.RFC3339Nano, fmt.Sprint(now))
	at, err2 := time.Parse(time.RFC3339Nano, fmt.Sprint(body["finish_at"]))
	if err1 != nil || err2 != nil {
		t.Fatalf("%v, %v: %v", err1, err2, body)
	}
	return at.Sub(from).Round(time.Second)
}

// A forecast assumes settings, and shows the end without them.
func TestForecastAssumesSettings(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, e queue.Engine) {
		f.do("PUT", email, `{"rate":"1/s","capacity":500,"adapt":{"floor":"1/s","ceiling":"9/s"}}`).want(t, 201)
		list := make([]queue.Job, 0, 301)
		for n := range 301 {
			list = append(list, queue.Job{
				Queue: "email", ID: fmt.Sprint("j", n), Lane: "a", Payload: []byte("1"), Cost: 1,
				ContentType: queue.DefaultContentType,
			})
		}
		if _, err := e.Append(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		attend.Queues(t, e)
		f.do("GET", email+"/forecast", "").want(t, 200, "unchanged", nil)
		for settings, want := range map[string]time.Duration{
			"rate=2/s":                            150 * time.Second,
			"rate=2/s burst=1":                    150 * time.Second,
			"limits.0.rate=30/m limits.0.burst=1": 600 * time.Second,
			"lanes.rate=30/m":                     600 * time.Second,
			"lanes.overrides.x.rate=1/h":          300 * time.Second, // no job has this lane
			"capacity=900":                        300 * time.Second,
			"retry.max_attempts=2":                300 * time.Second,
			"adapt= rate=10/s":                    30 * time.Second,
		} {
			a := f.do("GET", assuming("email", strings.Split(settings, " ")...), "")
			a.want(t, 200)
			if got := finish(t, a.body, a.body["now"]); (got - want).Abs() > 2*time.Second {
				t.Errorf("%s: empty in %v, want %v", settings, got, want)
			}
			unchanged, _ := a.body["unchanged"].(map[string]any)
			if got := finish(t, unchanged, a.body["now"]); (got - 300*time.Second).Abs() > 2*time.Second {
				t.Errorf("%s: otherwise empty in %v: %s", settings, got, a.text)
			}
		}
		short, long := f.do("GET", email+"/forecast?rate=2/s&set=burst%3D7", ""), f.do(
			"GET", assuming("email", "rate=2/s", "burst=7"), "")
		if a, b := finish(t, short.body, short.body["now"]), finish(t, long.body, long.body["now"]); a != b || a < 0 {
			t.Errorf("rate= ends in %v, set=rate= in %v", a, b)
		}
		if i, err := e.Get(t.Context(), "email"); err != nil || i.Spec.Rate.String() != "1/s" || i.Spec.Capacity != 500 {
			t.Errorf("asking changed the queue: %+v, %v", i.Spec, err)
		}
	})
}

// Whatever a PUT refuses, a forecast refuses with the same words.
func TestForecastRefusesNonsense(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, _ queue.Engine) {
		f.do("PUT", email, `{"rate":"50/s","limits":[{"quota":"9/d"}]}`).want(t, 201)
		for setting, field := range map[string]string{
			"rate=fast": "rate", "rate=0/s": "rate", "rate=": "", "burst=-1": "burst", "burst=1e99": "burst",
			"burst=many": "burst", "lanes.rate=no": "lanes.rate", "lanes.nonsense=1": "lanes.nonsense",
			"nonsense=1": "nonsense", "limits.0.quota=9/x": "limits.0.quota", "limits.1.quota=5/d": "",
			"capacity=0": "capacity", "name=other": "name", "rules.0=ghost": "", "lease=1": "lease",
			"deferred.readmit_between=99:00-1": "", "pull=maybe": "pull", "deliver.http.url=ftp://x": "",
			"overflow=defer": "overflow", "adapt.floor=2/s": "", "rate=\x00": "rate", "retry=5": "retry",
			"lanes.overrides.\xff.rate=1/s": "", "deliver={\"": "",
		} {
			a := f.do("GET", assuming("email", setting), "")
			var q queue.Spec
			if err := json.Unmarshal([]byte(f.do("GET", email, "").text), &q); err != nil {
				t.Fatal(err)
			}
			tree, err := assign.Tree(q)
			if err == nil {
				tree, err = assign.To(tree, []string{setting})
			}
			body, err2 := json.Marshal(tree)
			if err != nil || err2 != nil {
				t.Fatal(setting, err, err2)
			}
			p := f.do("PUT", email, string(body))
			if p.status < 400 { // valid: it hoists another rate, for example
				a.want(t, 200)
				f.do("PUT", email, `{"rate":"50/s","limits":[{"quota":"9/d"}]}`).want(t, 200)
				continue
			}
			a.want(t, p.status, "field", p.body["field"], "detail", p.body["detail"], "reason", p.body["reason"])
			if field != "" && a.body["field"] != field {
				t.Errorf("%q: field %v, want %s: %s", setting, a.body["field"], field, a.text)
			}
		}
		for query, field := range map[string]string{
			"set=": "set", "set": "set", "set=rate": "set", "set=%3D1": "set", "set=rate.x%3D1": "rate.x",
			"set=limits.7.rate%3D1/s": "limits.7.rate", "rate=": "rate", "rate=fast": "rate", "rate=1/s&rate=2/s": "rate",
			"rate=1/s&set=rate%3D2/s": "rate", "set=" + strings.Repeat("a.", 999) + "b%3D1": "set",
			strings.Repeat("set=burst%3D2&", 101): "set",
		} {
			f.do("GET", email+"/forecast?"+query, "").want(t, 400, "field", field)
		}
		f.do("GET", assuming("unknown", "burst=2"), "").want(t, 404, "reason", "unknown_queue")
	})
}

// A viewer learns nothing from assumptions about rules and secrets, and an app may assume no more than it may put.
func TestForecastOfAViewer(t *testing.T) {
	e, err := boltq.Open(t.Context(), t.TempDir()+"/store", boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	s := secureOver(t, e, api.Options{})
	s.put("/v1/apps/shop", `{"prefixes":["shop-*"],"limits":{"queues":1}}`)
	s.put("/v1/queues/shop-a", `{"rate":"1/s","lanes":{"capacity":5}}`)
	viewer, owner := s.with("shop", auth.View), s.with("shop", auth.View, auth.Configure)
	s.by(viewer, "GET", assuming("shop-a", "burst=5"), "").want(t, 200)
	s.by(viewer, "GET", assuming("shop-a", "burst=0"), "").want(t, 400, "field", "burst")
	for _, setting := range []string{
		"rules.0=shop-ghost", "deliver.http.url=http://127.0.0.1:1/x", `deliver.http.headers.authorization={"secret":"key"}`,
	} {
		s.by(viewer, "GET", assuming("shop-a", setting), "").want(t, 200)
	}
	s.by(owner, "GET", assuming("shop-a", "rules.0=other-rule"), "").want(t, 400, "field", "rules.0")
	s.by(viewer, "GET", assuming("other", "burst=5"), "").want(t, 404)
}
