package api_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

func (a *answer) wantHeader(t *testing.T, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if got := strings.Join(a.header.Values(pairs[i]), " | "); got != pairs[i+1] {
			t.Errorf("%s is %s, want %s", pairs[i], got, pairs[i+1])
		}
	}
}

func decoded(t *testing.T, text string) (v map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestTake(t *testing.T) {
	f := serve(t, api.Options{})
	f.do("PUT", otp, twoM).want(t, 201)
	a := f.do("POST", otp+"/take", `{"key":"a"}`)
	a.want(
		t, 200, "allowed", true, "limit", 2, "remaining", 1, "retry_after_ms", 0, "reset_after_ms", 30000, "lease", nil,
		"shadowed", nil,
	)
	a.wantHeader(t, "RateLimit-Policy", `"otp";q=2;w=60`, "RateLimit", `"otp";r=1;t=30`, "Retry-After", "")
	f.do("POST", otp+"/peek", `{"key":"a","cost":2}`).want(
		t, 200, "allowed", false, "remaining", 1, "retry_after_ms", 30000,
	)
	f.do("POST", otp+"/take", `{"key":"a","cost":1}`).want(t, 200, "remaining", 0)
	// what the client sends of these says nothing
	a = f.do("POST", otp+"/take", `{"key":"a"}`, "RateLimit", `"otp";r=99`, "Retry-After", "0")
	a.want(
		t, 429, "reason", "limit_reached", "allowed", false, "rule", "otp", "limit", 2, "remaining", 0, "retry_after_ms",
		30000, "reset_after_ms", 60000,
	)
	a.wantHeader(t, "RateLimit-Policy", `"otp";q=2;w=60`, "RateLimit", `"otp";r=0;t=30`, "Retry-After", "30")
	f.do("POST", otp+"/take", `{"key":"b","cost":2}`).want(t, 200, "remaining", 0)
	f.do("POST", otp+"/refund", `{"key":"b"}`).want(t, 200, "allowed", true, "remaining", 0)
	f.do("POST", otp+"/reset", `{"key":"a"}`).want(t, 200, "allowed", true, "remaining", 1)
	f.do("POST", otp+"/reset", `{"all":true}`).want(t, 204)
	f.do("POST", otp+"/peek", `{"key":"b","cost":2}`).want(t, 200, "allowed", true)
	if got := fmt.Sprint(f.engine.takes); got != "[1 1 1 1 1 1 1 1]" {
		t.Errorf("asked %s", got)
	}
}

// As redis-cell answers CL.THROTTLE: limited, limit, remaining, seconds until a retry or -1, seconds until all is
// fresh.
func TestTakeAsRedisCell(t *testing.T) {
	f := serve(t, api.Options{})
	f.do("PUT", otp, twoM).want(t, 201)
	for _, want := range []string{"[0,2,1,-1,30]\n", "[0,2,0,-1,60]\n", "[1,2,0,30,60]\n"} {
		a := f.do("POST", otp+"/take?as=redis-cell", `{"key":"a"}`)
		if a.status != 200 || a.text != want {
			t.Errorf("answered %d %s, want %s", a.status, a.text, want)
		}
		a.wantHeader(t, "RateLimit-Policy", `"otp";q=2;w=60`, "Retry-After", "", "Content-Type", "application/json")
	}
	if a := f.do("POST", otp+"/peek?as=redis-cell", `{"key":"b","cost":2}`); a.text != "[0,2,0,-1,60]\n" {
		t.Errorf("a peek is answered %s", a.text)
	}
	f.do("PUT", "/v1/rules/dark", `{"algorithm":"gap","period":"1m","action":"shadow"}`).want(t, 201)
	for range 2 { // the second would be refused if the rule did more than count
		if a := f.do("POST", "/v1/rules/dark/take?as=redis-cell", ""); !strings.HasPrefix(a.text, "[0,1,0,-1,") {
			t.Errorf("a rule that only counts is answered %s", a.text)
		}
	}
	f.do("POST", otp+"/take?as=cell", `{"key":"a"}`).want(t, 400, "reason", "invalid_field", "field", "as")
	f.do(
		"POST", otp+"/take?as=redis-cell", `{"takes":[{"key":"a"}]}`,
	).want(t, 400, "reason", "invalid_field", "field", "as")
	f.do("POST", otp+"/refund?as=redis-cell", `{"key":"a"}`).want(t, 400, "reason", "invalid_field", "field", "as")
	f.do("POST", otp+"/take?as=redis-cell", `{"key":"a","cost":3}`).want(t, 400, "field", "cost")
}

// What the rule's away decided is told as such.
func TestTakeWhileTheStoreIsAway(t *testing.T) {
	f := serve(t, api.Options{})
	f.do("PUT", otp, twoM).want(t, 201)
	f.engine.away = rules.AwayShare
	f.do("POST", otp+"/take", `{"key":"a","cost":2}`).want(t, 200, "allowed", true, "away", "share")
	f.do("POST", otp+"/peek", `{"key":"a"}`).want(t, 200, "allowed", false, "away", "share")
	if a := f.do("POST", otp+"/take", `{"takes":[{"key":"b"}]}`); !strings.Contains(a.text, `"away":"share"`) {
		t.Error(a.text)
	}
	f.do("POST", otp+"/take", `{"key":"a"}`).want(t, 429, "reason", "limit_reached", "away", "share",
		"detail", "the store cannot be reached, and this process's share of the rule otp refuses it; it would pass after "+
			"retry_after_ms")
}

// A rule that only counts lets all through, and says what it would have done.
func TestTakeFromShadow(t *testing.T) {
	f := serve(t, api.Options{})
	f.do("PUT", otp, `{"algorithm":"gap","period":"1m","action":"shadow"}`).want(t, 201)
	f.do("POST", otp+"/take", "").want(t, 200, "allowed", true, "shadowed", nil)
	a := f.do("POST", otp+"/take", "{}")
	a.want(t, 200, "allowed", true, "shadowed", true, "retry_after_ms", 60000)
	a.wantHeader(t, "RateLimit", "", "RateLimit-Policy", "")
	f.do("POST", otp+"/take", `{"takes":[{}]}`).want(t, 200, "takes", []any{
		map[string]any{
			"status": 200., "allowed": true, "shadowed": true, "limit": 1., "remaining": 0., "retry_after_ms": 60000.,
			"reset_after_ms": 60000.,
		},
	})
}

func TestTakeWindows(t *testing.T) {
	f := serve(t, api.Options{})
	for _, c := range []struct{ rule, policy string }{
		{`{"algorithm":"meter","rate":"3/s","burst":3}`, `"otp";q=3;w=1`},
		{`{"algorithm":"token_bucket","rate":"5/s"}`, `"otp";q=1`},
		{`{"algorithm":"fixed_window","limit":100,"period":"1h"}`, `"otp";q=100;w=3600`},
		{`{"algorithm":"sliding_counter","limit":100,"period":"90s"}`, `"otp";q=100;w=90`},
		{`{"algorithm":"gap","period":"500ms"}`, `"otp";q=1`},
		{`{"algorithm":"meter","rate":"2/m","burst":2,"overrides":{"k":{"rate":"100/m","burst":50}}}`, `"otp";q=50;w=30`},
		{`{"algorithm":"concurrency","limit":7,"ttl":"30s"}`, `"otp";q=7;qu="concurrent-requests"`},
	} {
		f.do("PUT", otp, c.rule)
		key := ""
		if strings.Contains(c.rule, "overrides") {
			key = "k"
		}
		f.do("POST", otp+"/take", `{"key":"`+key+`"}`).wantHeader(t, "RateLimit-Policy", c.policy)
	}
}

func TestManyTakes(t *testing.T) {
	f := serve(t, api.Options{})
	f.do("PUT", otp, twoM).want(t, 201)
	a := f.do(
		"POST", otp+"/take",
		`{"takes":[{"key":"a"},{"key":"a","cost":0},{"key":"a","cost":3},{"kee":"a"},{"key":7},{},{"key":"a"},{"key":"a"},`+
			`"a",{"key":"b","cost":1e3}]}`,
	)
	a.want(t, 200)
	a.wantHeader(t, "RateLimit", "", "Retry-After", "")
	var v struct {
		Takes []struct {
			Status        int
			Allowed       bool
			Remaining     int
			Reason, Field string
		}
	}
	if err := json.Unmarshal([]byte(a.text), &v); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, one := range v.Takes {
		got = append(got, strings.TrimSpace(fmt.Sprintln(one.Status, one.Allowed, one.Remaining, one.Reason, one.Field)))
	}
	want := []string{
		"200 true 1", "400 false 0 invalid_field cost", "400 false 0 invalid_field cost", "400 false 0 unknown_field kee",
		"400 false 0 invalid_field key",
		"400 false 0 invalid_field key", "200 true 0", "429 false 0", "400 false 0 invalid_field",
		"400 false 0 invalid_field cost",
	}
	if !slices.Equal(got, want) {
		t.Fatalf("answered %q, want %q", got, want)
	}
	for _, n := range []int{1, 1000} {
		f.do("POST", otp+"/peek", `{"takes":[`+strings.Join(slices.Repeat([]string{`{"key":"a"}`}, n), ",")+`]}`).want(t, 200)
	}
	f.do(
		"POST", otp+"/take", `{"takes":[`+strings.Join(slices.Repeat([]string{`{"key":"a"}`}, 1001), ",")+`]}`,
	).want(t, 400, "field", "takes")
}

func TestBadTakes(t *testing.T) {
	f := serve(t, api.Options{})
	f.do("PUT", otp, twoM).want(t, 201)
	for _, c := range []struct{ op, body, reason, field string }{
		{"take", `{"key":"a","cost":3}`, "invalid_field", "cost"},
		{"take", `{"key":"a","cost":0}`, "invalid_field", "cost"},
		{"take", `{"key":"a","cost":-1}`, "invalid_field", "cost"},
		{"take", `{"key":"a","cost":1e18}`, "invalid_field", "cost"},
		{"take", `{"key":"a","cost":1000000000000000000}`, "invalid_field", "cost"},
		{"take", `{"key":"a","cost":"1"}`, "invalid_field", "cost"},
		{"take", `{"key":"a","cost":NaN}`, "invalid_json", ""},
		{"take", `{}`, "invalid_field", "key"},
		{"take", ``, "invalid_field", "key"},
		{"take", `{"key":["a"]}`, "invalid_field", "key"},
		{"take", `{"key":"a","key":"b"}`, "duplicate_field", "key"},
		{"take", `{"kye":"a"}`, "unknown_field", "kye"},
		{"take", `{"all":true}`, "unknown_field", "all"},
		{"take", `{"takes":[]}`, "invalid_field", "takes"},
		{"take", `{"takes":{}}`, "invalid_field", "takes"},
		{"take", `{"takes":null}`, "invalid_field", "takes"},
		{"take", `{"takes":[{"key":"a"}],"takes":[]}`, "duplicate_field", "takes"},
		{"reset", `{"all":null}`, "invalid_request", "all"},
		{"take", `{"takes":[{"key":"a"}],"key":"a"}`, "invalid_request", "takes"},
		{"take", `[{"key":"a"}]`, "invalid_field", ""},
		{"take", `{"takes":[{"key":"a"},`, "invalid_json", ""},
		{"reset", `{"all":true,"key":"a"}`, "invalid_request", "all"},
		{"reset", `{"all":false}`, "invalid_request", "all"},
		{"reset", `{}`, "invalid_field", "key"},
	} {
		a := f.do("POST", otp+"/"+c.op, c.body)
		a.want(t, 400, "reason", c.reason)
		if c.field != "" {
			a.want(t, 400, "field", c.field)
		}
	}
	f.do("POST", otp+"/take", `{"key":5}`).want(t, 400, "detail", "is a number, must be a string")
	f.do("POST", otp+"/take", `[{"key":"a"}]`).want(t, 400, "detail", "is a list, must be an object")
	f.do("POST", "/v1/queues/none/pause", `{"until":"soon"}`).want(
		t, 400, "field", "until", "detail", `is a string, must be a time such as "2026-01-02T15:04:05Z"`,
	)
	f.do("POST", otp+"/take", `{"key":"`+strings.Repeat("x", 3<<20)+`"}`).want(t, 413, "reason", "too_large")
	f.do("POST", otp+"/take", `key=a`, "Content-Type", "application/x-www-form-urlencoded").want(t, 415)
	f.do("POST", "/v1/rules/none/take", `{"key":"a"}`).want(t, 404, "reason", "unknown_rule")
	f.do("POST", "/v1/rules/none/reset", `{"all":true}`).want(t, 404, "reason", "unknown_rule")
	f.engine.fail(fmt.Errorf("redis: %w", queue.ErrOutcomeUnknown))
	a := f.do("POST", otp+"/take", `{"key":"a"}`)
	a.want(t, 504, "reason", "outcome_unknown")
	if detail := fmt.Sprint(a.body["detail"]); !strings.Contains(detail, "counts again") {
		t.Errorf("detail %s", detail)
	}
	f.engine.fail(queue.ErrUnavailable)
	f.do("POST", otp+"/take", `{"key":"a"}`).want(t, 503, "reason", "unavailable")
}

// A job that a rule refuses is told which, alone and in a stream.
func TestLimitReached(t *testing.T) {
	f := serve(t, api.Options{})
	f.do("PUT", otp, twoM).want(t, 201)
	f.do("PUT", "/v1/rules/all", `{"algorithm":"meter","rate":"1/s","overrides":{"vip":{"rate":"9/s"}}}`).want(t, 201)
	refusing := rules.Ruling{Rule: "otp", Decision: leaky.Decision{
		Limit: 2, RetryAfter: 1500 * time.Millisecond, ResetAfter: time.Minute,
	}}
	allowing := rules.Ruling{Rule: "all", Decision: leaky.Decision{
		Allowed: true, Limit: 100, Remaining: 7, ResetAfter: time.Hour,
	}}
	shadow := rules.Ruling{Rule: "dark", Shadow: true, Decision: leaky.Decision{Limit: 1, RetryAfter: time.Hour}}
	f.engine.limited = &queue.Appended{
		Outcome: queue.LimitReached, RetryAfter: 1500 * time.Millisecond, Rules: []rules.Ruling{shadow, allowing, refusing},
	}
	a := f.do("POST", jobs, `{"payload":1,"id":"a"}`)
	a.want(
		t, 429, "reason", "limit_reached", "id", "a", "rule", "otp", "limit", 2, "remaining", 0, "retry_after_ms", 1500,
		"reset_after_ms", 60000,
	)
	a.wantHeader(
		t, "Retry-After", "2", "RateLimit-Policy", `"all";q=100, "otp";q=2;w=60`, "RateLimit", `"all";r=7, "otp";r=0;t=2`,
	)

	a = f.do("POST", jobs, `{"payload":1,"id":"a"}`+"\n", "Content-Type", "application/x-ndjson")
	wantLine(
		t, decoded(t, a.text), "line", 1, "status", 429, "reason", "limit_reached", "id", "a", "rule", "otp", "limit", 2,
		"remaining", 0, "retry_after_ms", 1500, "reset_after_ms", 60000,
	)

	// the store was not asked: that is not to be told as if the limit were reached
	f.engine.limited.Rules[2].Away = rules.AwayClosed
	a = f.do("POST", jobs, `{"payload":1,"id":"a"}`)
	a.want(t, 429, "reason", "limit_reached", "rule", "otp", "away", "closed", "retry_after_ms", 1500)
	if !strings.Contains(a.text, "the store cannot be reached") || strings.Contains(a.text, "if nothing else does") {
		t.Error(a.text)
	}
	wantLine(
		t, decoded(t, f.do("POST", jobs, `{"payload":1,"id":"a"}`+"\n", "Content-Type", "application/x-ndjson").text), "line",
		1, "status", 429, "away", "closed",
	)
	f.engine.limited.Rules[2].Away = ""

	f.engine.limited.Outcome = queue.OverflowFull // a rule would have it put aside
	f.do("POST", jobs, `{"payload":1,"id":"a"}`).want(
		t, 429, "reason", "overflow_full", "id", "a", "rule", "otp", "limit", 2, "retry_after_ms", 1500,
	)
	f.engine.limited.Rules = f.engine.limited.Rules[:2]
	f.do("POST", jobs, `{"payload":1,"id":"a"}`).want(t, 429, "reason", "overflow_full", "id", "a", "rule", nil)

	f.engine.limited = &queue.Appended{
		Outcome: queue.Accepted, State: queue.Waiting, Position: 1, Rules: []rules.Ruling{shadow, allowing},
	}
	a = f.do("POST", jobs, `{"payload":1}`)
	a.want(t, 202, "rule", nil)
	a.wantHeader(t, "Retry-After", "", "RateLimit-Policy", `"all";q=100`, "RateLimit", `"all";r=7;t=3600`)
	f.engine.limited.Rules = []rules.Ruling{shadow}
	f.do("POST", jobs, `{"payload":1}`).wantHeader(t, "RateLimit-Policy", "", "RateLimit", "")
}
