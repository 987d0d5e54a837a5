package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/queue"
)

const (
	otp  = "/v1/rules/otp"
	twoM = `{"algorithm":"meter","rate":"2/m","burst":2,"key":"{payload/to}"}`
)

func TestRuleLifecycle(t *testing.T) {
	f := serve(t, api.Options{})
	a := f.do("PUT", otp, twoM, "If-None-Match", "*")
	a.want(
		t, 201, "name", "otp", "algorithm", "meter", "rate", "2/m", "burst", 2, "key", "{payload/to}", "action", "reject",
		"away", "closed", "revision", 2, "limit", nil,
	)
	if a.header.Get("ETag") != `"2"` || a.header.Get("Location") != otp {
		t.Errorf("headers %v", a.header)
	}
	f.do("PUT", otp, twoM, "If-None-Match", "*").want(t, 412, "reason", "revision_mismatch", "revision", 2)
	f.do("PUT", otp, twoM, "If-Match", `"1"`).want(t, 412, "revision", 2)
	f.do(
		"PUT", otp, `{"algorithm":"gap","period":"30s","action":"shadow","away":"share","overrides":{"vip":{"period":"1s"}}}`,
		"If-Match", `"1", "2"`,
	).
		want(
			t, 200, "revision", 3, "period", "30s", "action", "shadow", "away", "share", "overrides",
			map[string]any{"vip": map[string]any{"period": "1s"}},
		)
	f.do(
		"PUT", otp, `{"name":"otp","algorithm":"concurrency","limit":5,"ttl":"1m"}`, "If-Match", "*",
	).want(t, 200, "revision", 4, "ttl", "1m0s")
	f.do("PUT", "/v1/rules/new", twoM, "If-Match", "*").want(t, 412)
	f.do("PUT", "/v1/rules/new", twoM, "If-Match", `"9"`).want(t, 412, "revision", 0)
	f.do("PUT", otp, twoM, "If-Match", `W/"4"`).want(t, 400, "field", "If-Match")
	a = f.do("GET", otp, "")
	a.want(t, 200, "revision", 4, "queues", nil)
	if a.header.Get("ETag") != `"4"` {
		t.Errorf("headers %v", a.header)
	}

	f.engine.rules["otp"].info.Queues = []string{"mail", "mail.otp"}
	f.do("GET", otp, "").want(t, 200, "queues", []any{"mail", "mail.otp"})
	f.do("DELETE", otp, "").want(t, 409, "reason", "rule_in_use")
	f.engine.rules["otp"].info.Queues = nil
	f.do("DELETE", otp, "", "If-Match", `"3"`).want(t, 412)
	f.do("DELETE", otp, "", "If-Match", `"4"`).want(t, 204)
	f.do("DELETE", otp, "").want(t, 404, "reason", "unknown_rule")
	f.do("GET", otp, "").want(t, 404, "reason", "unknown_rule")
	f.do("PATCH", otp, "").want(t, 405)
	f.do("GET", otp+"/take", "").want(t, 405)
}

// A change that was made is never said not to have been, though the rule cannot be read after it.
func TestRuleChangedButNotRead(t *testing.T) {
	f := serve(t, api.Options{})
	f.engine.readErr = fmt.Errorf("redis 10.0.0.1: %w", queue.ErrUnavailable)
	made := f.do("PUT", otp, twoM)
	made.want(t, 201, "name", "otp", "revision", 2)
	if made.header.Get("ETag") != `"2"` {
		t.Errorf("headers %v", made.header)
	}
	f.do("GET", otp, "").want(t, 503, "reason", "unavailable")
}

// A rule is not deleted while it cannot be found out who asks it, unless that does not matter.
func TestRuleNotReadIsNotDeleted(t *testing.T) {
	f := serve(t, api.Options{})
	f.do("PUT", otp, twoM).want(t, 201)
	f.engine.readErr = fmt.Errorf("redis 10.0.0.1: %w", queue.ErrUnavailable)
	f.do("DELETE", otp, "").want(t, 503, "reason", "unavailable")
	f.do("DELETE", otp+"?force=true", "").want(t, 204)
}

func TestListRules(t *testing.T) {
	f := serve(t, api.Options{})
	f.do("GET", "/v1/rules", "").want(t, 200, "rules", []any{}, "next", nil)
	for i := range 7 {
		f.do("PUT", fmt.Sprintf("/v1/rules/r%d", i), twoM).want(t, 201)
	}
	var names []string
	path := "/v1/rules?limit=3"
	for pages := 1; path != ""; pages++ {
		a := f.do("GET", path, "")
		a.want(t, 200)
		for _, q := range a.body["rules"].([]any) {
			names = append(names, q.(map[string]any)["name"].(string))
		}
		link := a.header.Get("Link")
		path, _, _ = strings.Cut(strings.TrimPrefix(link, "<"), ">")
		if (a.body["next"] == nil) != (path == "") || pages > 3 {
			t.Fatalf("page %d: next %v, link %s", pages, a.body["next"], link)
		}
	}
	if got := strings.Join(names, " "); got != "r0 r1 r2 r3 r4 r5 r6" {
		t.Errorf("listed %s", got)
	}
	f.do("GET", "/v1/rules?limit=1001", "").want(t, 400, "field", "limit")
}

func TestBadRules(t *testing.T) {
	f := serve(t, api.Options{})
	for _, c := range []struct{ body, field string }{
		{`{}`, "algorithm"},
		{`{"algorithm":"bucket"}`, "algorithm"},
		{`{"algorithm":"meter"}`, "rate"},
		{`{"algorithm":"meter","rate":"0/s"}`, "rate"},
		{`{"algorithm":"meter","rate":"-1/s"}`, "rate"},
		{`{"algorithm":"meter","rate":"1e18/s"}`, "rate"},
		{`{"algorithm":"meter","rate":"NaN"}`, "rate"},
		{`{"algorithm":"meter","rate":"unlimited"}`, "rate"},
		{`{"algorithm":"meter","rate":"1/s","burst":-1}`, "burst"},
		{`{"algorithm":"meter","rate":"1/s","burst":1000000000000000000}`, "burst"},
		{`{"algorithm":"meter","rate":"1/s","limit":5}`, "limit"},
		{`{"algorithm":"fixed_window","limit":0,"period":"1m"}`, "limit"},
		{`{"algorithm":"fixed_window","limit":-5,"period":"1m"}`, "limit"},
		{`{"algorithm":"fixed_window","limit":1e18,"period":"1m"}`, "limit"},
		{`{"algorithm":"fixed_window","limit":1000000000000000000,"period":"1m"}`, "limit"},
		{`{"algorithm":"fixed_window","limit":2.5,"period":"1m"}`, "limit"},
		{`{"algorithm":"fixed_window","limit":5,"period":"0s"}`, "period"},
		{`{"algorithm":"fixed_window","limit":5,"period":"876000h"}`, "period"},
		{`{"algorithm":"fixed_window","limit":5,"period":60}`, "period"},
		{`{"algorithm":"gap"}`, "period"},
		{`{"algorithm":"concurrency","limit":5}`, "ttl"},
		{`{"algorithm":"meter","rate":"1/s","action":"ask"}`, "action"},
		{`{"algorithm":"meter","rate":"1/s","action":"defer"}`, ""},
		{`{"algorithm":"meter","rate":"1/s","away":"shut"}`, "away"},
		{`{"algorithm":"meter","rate":"1/s","key":"{to}"}`, "key"},
		{`{"algorithm":"meter","rate":"1/s","key":"{lane"}`, "key"},
		{`{"algorithm":"meter","rate":"1/s","overrides":{"":{"rate":"1/s"}}}`, "overrides"},
		{`{"algorithm":"meter","rate":"1/s","overrides":{"a":{"rate":"0/s"}}}`, "overrides.a.rate"},
		{`{"algorithm":"meter","rate":"1/s","overrides":{"a":{"rate":"1/s"},"a":{"rate":"2/s"}}}`, "overrides.a"},
		{`{"algorithm":"meter","rate":"1/s","rate":"2/s"}`, "rate"},
		{`{"algorithm":"meter","rate":"1/s","rates":"2/s"}`, "rates"},
		{`{"algorithm":"meter","rate":"1/s","name":"sms"}`, "name"},
		{`{"algorithm":"meter","rate":null}`, "rate"},
		{`{"algorithm":"gap","period":"1s","burst":0}`, "burst"},
	} {
		if c.field == "" {
			f.do("PUT", otp, c.body).want(t, 422, "reason", "no_overflow", "field", "action")
			continue
		}
		f.do("PUT", otp, c.body, "Content-Type", "application/json").want(t, 400, "field", c.field)
	}
	for _, body := range []string{``, `[]`, `{"algorithm":NaN}`, `{"algorithm":"meter","rate":"1/s"}x`} {
		f.do("PUT", otp, body).want(t, 400)
	}
	f.do("PUT", "/v1/rules/a%20b", twoM).want(t, 400, "field", "name")
	f.do("PUT", otp, twoM, "Content-Type", "application/yaml").want(t, 415)
	f.do("PUT", otp, strings.Repeat(" ", 3<<20)).want(t, 413)
	f.do("GET", otp, "").want(t, 404)
}
