package api_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// within reports whether a whole number of milliseconds is at most an hour, and not much less: a test may take its
// time.
func within(t *testing.T, a *answer, member string) {
	t.Helper()
	if ms, _ := a.body[member].(float64); ms > 3_600_000 || ms < 3_000_000 {
		t.Errorf("%s is %v: %s", member, a.body[member], a.text)
	}
}

// Rules from the request to the engine: put, named by queues, asked by jobs.
func TestRulesLife(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, _ queue.Engine) {
		const rules = "/v1/rules/"
		f.do("PUT", email, `{"rate":"14/s","rules":["email.otp"]}`).want(t, 400, "field", "rules.0")
		f.do(
			"PUT", rules+"email.otp", `{"algorithm":"sliding_log","limit":2,"period":"1h","key":"{payload/to}"}`,
		).want(t, 201)
		f.do(
			"PUT", rules+"email.tenant", `{"algorithm":"meter","rate":"3/h","burst":3,"key":"{header.X-Tenant}"}`,
		).want(t, 201)
		f.do("PUT", rules+"email.dark", `{"algorithm":"gap","period":"1h","action":"shadow"}`).want(t, 201)
		f.do("PUT", rules+"email.at-once", `{"algorithm":"concurrency","limit":1,"ttl":"1h"}`).want(t, 201)
		f.do("PUT", email, `{"rate":"14/s","rules":["email.at-once"]}`).want(t, 400, "field", "rules.0")
		// of other groups likewise
		f.do("PUT", rules+"places", `{"algorithm":"concurrency","limit":1,"ttl":"1h"}`).want(t, 201)
		f.do("PUT", email, `{"rate":"14/s","rules":["email.otp","none"]}`).want(t, 400, "field", "rules.1")
		f.do("PUT", email, `{"rate":"14/s","rules":["places"]}`).want(t, 400, "field", "rules.0")
		f.do("PUT", email, `{"rate":"14/s","rules":["email.otp","email.otp"]}`).want(t, 400, "field", "rules.1")
		f.do("PUT", email, `{"rate":"14/s","rules":["a","b","c","d","e","f","g","h","i"]}`).want(t, 400, "field", "rules")
		f.do("PUT", email, `{"rate":"14/s","rules":["no such name"]}`).want(t, 400, "field", "rules.0")
		f.do(
			"PUT", email, `{"rate":"1/h","capacity":4,"rules":["email.otp","email.tenant","email.dark"]}`,
		).want(t, 201, "rules", []string{"email.otp", "email.tenant", "email.dark"})
		f.do("GET", rules+"email.otp", "").want(t, 200, "queues", []string{"email"})
		f.do("DELETE", rules+"email.otp", "").want(t, 409, "reason", "rule_in_use")

		post := func(id, to string) *answer {
			t.Helper()
			return f.do("POST", jobs, `{"payload":{"to":"`+to+`"},"id":"`+id+`","headers":{"x-tenant":"acme"}}`)
		}
		a := post("1", "a")
		a.want(t, 202)
		if got := a.header.Get("RateLimit-Policy"); got != `"email.otp";q=2;w=3600, "email.tenant";q=3;w=3600` {
			t.Errorf("policy %s", got)
		}
		if got := a.header.Get("RateLimit"); !strings.HasPrefix(got, `"email.otp";r=1;t=`) ||
			!strings.Contains(got, `, "email.tenant";r=2;t=`) || strings.Contains(got, "dark") {
			t.Errorf("limits %s", got)
		}
		post("1", "a").want(t, 200)
		post("2", "a").want(t, 202)
		a = post("3", "a")
		a.want(t, 429, "reason", "limit_reached", "rule", "email.otp", "limit", 2, "remaining", 0, "id", "3")
		// which it would have left
		if a.header.Get("Retry-After") == "" || !strings.HasSuffix(a.header.Get("RateLimit"), `, "email.tenant";r=0`) {
			t.Errorf("headers %v", a.header)
		}
		post("3", "b").want(t, 202) // what refused the other charged it to none
		a = post("4", "b")
		a.want(t, 429, "reason", "limit_reached", "rule", "email.tenant")
		f.do(
			"POST", jobs,
			`{"payload":{"to":"c"},"headers":{"x-tenant":"acme"}}`+"\n"+`{"payload":{"to":"c"},"headers":{"x-tenant":"other"}}`+
				"\n",
			"Content-Type", "application/x-ndjson",
		).
			wantLines(
				t, []any{"status", 429, "reason", "limit_reached", "rule", "email.tenant", "limit", 3}, []any{"status", 202},
			)
		// and is not charged
		f.do("POST", jobs, `{"payload":{"to":"d"},"headers":{"x-tenant":"third"}}`).want(t, 429, "reason", "full")
		f.do("POST", rules+"email.tenant/peek", `{"key":"third","cost":3}`).want(t, 200, "allowed", true)

		f.do("POST", jobs, `{"payload":{"to":"d"}}`).want(t, 400, "reason", "invalid_field", "field", "headers.X-Tenant")
		f.do("POST", jobs, `{"payload":{"too":"d"},"headers":{"x-tenant":"new"}}`).want(
			t, 400, "reason", "invalid_field", "field", "payload/to",
		)
		f.do("POST", jobs, `{"payload":{"to":"d"},"cost":3,"headers":{"x-tenant":"new"}}`).want(t, 400, "field", "cost")

		f.do("PUT", email, `{"rate":"1/h"}`).want(t, 200, "rules", nil)
		f.do("DELETE", rules+"email.otp", "").want(t, 204)
	})
}

// A rule that queues of other groups name is not deleted by mistake; if it is on purpose, their jobs are refused for
// now, and not as bad.
func TestRuleOfOtherGroups(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, e queue.Engine) {
		const rule = "/v1/rules/tenants"
		window := func(limit int) string {
			return fmt.Sprintf(`{"algorithm":"fixed_window","limit":%d,"period":"1h"}`, limit)
		}
		f.do("PUT", rule, window(1)).want(t, 201)
		for i := range 12 {
			f.do("PUT", fmt.Sprintf("/v1/queues/q-%02d", i), `{"rate":"1/h","rules":["tenants"]}`).want(t, 201)
		}
		f.do("DELETE", rule, "", "If-Match", `"999"`).want(t, 412)
		f.do("DELETE", rule, "").want(t, 409, "reason", "rule_in_use", "queues", []string{
			"q-00", "q-01", "q-02", "q-03", "q-04", "q-05", "q-06", "q-07", "q-08", "q-09",
		})
		f.do("DELETE", rule+"?force=1.5", "").want(t, 400, "field", "force")
		const places = `{"algorithm":"concurrency","limit":1,"ttl":"1h"}`
		f.do("PUT", rule, places).want(t, 400, "field", "algorithm")
		f.do("PUT", rule, window(2)).want(t, 200)
		f.do("DELETE", rule+"?force=true", "").want(t, 204)
		f.do("DELETE", rule, "").want(t, 404, "reason", "unknown_rule")
		f.do("PUT", rule, places).want(t, 400, "field", "algorithm") // they name it, be it there or not
		f.do("PUT", "/v1/queues/q-00", `{"rate":"2/h","rules":["tenants"]}`).want(t, 400, "field", "rules.0")
		f.do("PUT", "/v1/queues/q-00", `{"rate":"2/h"}`).want(t, 200)
		f.do("POST", "/v1/queues/q-00/rollback", `{}`).want(t, 400, "field", "rules.0")
		f.do("PUT", rule, window(3)).want(t, 201)
		f.do("POST", "/v1/queues/q-00/rollback", `{}`).want(t, 200, "rules", []string{"tenants"})

		f.do("PUT", "/v1/rules/q-00.own", window(1)).want(t, 201)
		f.do("PUT", "/v1/queues/q-00", `{"rate":"1/h","rules":["q-00.own"]}`).want(t, 200)
		f.do("DELETE", "/v1/rules/q-00.own?force=true", "").want(t, 409, "queues", []string{"q-00"})
	})
}

// wantLines compares the lines of a stream's answer.
func (a *answer) wantLines(t *testing.T, lines ...[]any) {
	t.Helper()
	texts := strings.Split(strings.TrimSpace(a.text), "\n")
	if len(texts) != len(lines) {
		t.Fatalf("%d lines: %s", len(texts), a.text)
	}
	for i, members := range lines {
		wantLine(t, decoded(t, texts[i]), members...)
	}
}

// Each kind of question, answered by the engine.
func TestAskedRules(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, _ queue.Engine) {
		f.do(
			"PUT", otp,
			`{"algorithm":"sliding_log","limit":2,"period":"1h","key":"{payload/to}","overrides":{"vip":{"limit":1000,`+
				`"period":"1h"}}}`,
		).want(t, 201)
		a := f.do("POST", otp+"/take", `{"key":"a"}`)
		a.want(t, 200, "allowed", true, "limit", 2, "remaining", 1, "retry_after_ms", 0)
		within(t, a, "reset_after_ms")
		f.do("POST", otp+"/take", `{"key":"a"}`).want(t, 200, "remaining", 0)
		a = f.do("POST", otp+"/take", `{"key":"a"}`)
		a.want(t, 429, "reason", "limit_reached", "rule", "otp")
		within(t, a, "retry_after_ms")
		f.do("POST", otp+"/take", `{"key":"vip","cost":999}`).want(t, 200, "limit", 1000, "remaining", 1)
		f.do("POST", otp+"/refund", `{"key":"a"}`).want(t, 200, "allowed", true, "remaining", 0)
		f.do("POST", otp+"/take", `{"key":"a"}`).want(t, 200)
		f.do("POST", otp+"/reset", `{"key":"a"}`).want(t, 200, "allowed", true, "remaining", 1)
		f.do("POST", otp+"/take", `{"key":"b","cost":2}`).want(t, 200)
		f.do("POST", otp+"/reset", `{"all":true}`).want(t, 204)
		f.do("POST", otp+"/peek", `{"key":"b","cost":2}`).want(t, 200, "allowed", true)
		f.do("POST", otp+"/take", `{"key":"b","cost":3}`).want(t, 400, "field", "cost")
		f.do("POST", otp+"/take", `{"key":"b","lease":"x"}`).want(t, 400, "field", "lease")
		f.do("POST", otp+"/take", `{"key":"`+strings.Repeat("k", 1025)+`"}`).want(t, 400, "field", "key")
		f.do(
			"POST", otp+"/take", `{"takes":[{"key":"c"},{"key":""},{"key":"c","cost":9},{"key":"c"},{"key":"c"}]}`,
		).want(t, 200)
		f.do("POST", "/v1/rules/none/take", `{"key":"a"}`).want(t, 404, "reason", "unknown_rule")
		f.do("POST", "/v1/rules/none/take", `{"takes":[{"key":"a"}]}`).want(t, 404, "reason", "unknown_rule")
		f.do("POST", "/v1/rules/No%20Rule/take", `{"key":"a"}`).want(t, 404, "reason", "unknown_rule")

		const places = "/v1/rules/places"
		f.do("PUT", places, `{"algorithm":"concurrency","limit":1,"ttl":"1h"}`).want(t, 201)
		a = f.do("POST", places+"/take", "")
		a.want(t, 200, "allowed", true, "remaining", 0)
		lease := fmt.Sprint(a.body["lease"])
		f.do("POST", places+"/take", "").want(t, 429, "reason", "limit_reached", "rule", "places")
		f.do("POST", places+"/take", `{"lease":"`+lease+`"}`).want(t, 200, "lease", lease) // renewed
		f.do("POST", places+"/refund", `{}`).want(t, 400, "field", "lease")
		f.do("POST", places+"/refund", `{"lease":"`+lease+`"}`).want(t, 200)
		f.do("POST", places+"/take", `{"lease":"mine"}`).want(t, 200, "lease", "mine")

		const dark = "/v1/rules/dark"
		f.do("PUT", dark, `{"algorithm":"gap","period":"1h","action":"shadow"}`).want(t, 201)
		f.do("POST", dark+"/take", "").want(t, 200, "allowed", true, "shadowed", nil)
		f.do("POST", dark+"/take", "").want(t, 200, "allowed", true, "shadowed", true)
	})
}

// However many ask at once, over HTTP too, never more pass than may.
func TestTakenAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, _ queue.Engine) {
		f.do("PUT", otp, `{"algorithm":"meter","rate":"1/h","burst":25}`).want(t, 201)
		var allowed atomic.Int64
		var running sync.WaitGroup
		for range 16 {
			running.Go(func() {
				for range 8 {
					resp, err := f.client.Post(f.url+otp+"/take", "application/json", strings.NewReader("{}"))
					if err != nil {
						t.Error(err)
						return
					}
					_ = resp.Body.Close()
					if resp.StatusCode == http.StatusOK {
						allowed.Add(1)
					}
				}
			})
		}
		running.Wait()
		if n := allowed.Load(); n != 25 {
			t.Errorf("%d passed, 25 may", n)
		}
	})
}

// What a rule defers goes onto the overflow, where there is one.
func TestRuleThatDefers(t *testing.T) {
	o := serveOverflowing(t)
	o.do("PUT", "/v1/rules/email.otp", `{"algorithm":"gap","period":"1h","action":"defer"}`).want(t, 201)
	o.do("PUT", email, `{"rate":"1/h","rules":["email.otp"],"overflow":"defer"}`).want(t, 201)
	o.post("a", "").want(t, 202, "state", "waiting")
	o.post("b", "").want(t, 202, "state", "deferred")
	o.post("c", `,"overflow":"reject"`).want(t, 429, "reason", "limit_reached", "rule", "email.otp")
	f := serve(t, api.Options{})
	f.do(
		"PUT", "/v1/rules/email.otp", `{"algorithm":"gap","period":"1h","action":"defer"}`,
	).want(t, 422, "reason", "no_overflow", "field", "action")
}

// A caller that gives a key to a rule that has none takes it for a limit of each key.
func TestAKeyIsRefusedByARuleThatHasNone(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, _ queue.Engine) {
		f.do("PUT", otp, `{"algorithm":"meter","rate":"3/s","burst":3}`).want(t, 201)
		for _, op := range []string{"/take", "/peek", "/refund", "/reset"} {
			f.do("POST", otp+op, `{"key":"k"}`).want(t, 400, "reason", "invalid_field", "field", "key")
		}
		a := f.do("POST", otp+"/take", `{"takes":[{"key":"k"},{},{"key":"l"}]}`)
		if got := regexp.MustCompile(`"status":\d+`).FindAllString(a.text, -1); fmt.Sprint(got) !=
			`["status":400 "status":200 "status":400]` {
			t.Errorf("of a list: %s", a.text)
		}
		f.do("POST", otp+"/take", "").want(t, 200, "remaining", 1)
		f.do("PUT", otp, `{"algorithm":"meter","rate":"3/s","burst":3,"key":"{payload/to}"}`).want(t, 200)
		f.do("POST", otp+"/take", `{"key":"k"}`).want(t, 200) // also before this process has read the rule anew
	})
}

// Takes and appended jobs are counted by their keys; what only asks, or is wrong, is not.
func TestTop(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, _ queue.Engine) {
		const rule, top = "/v1/rules/otp", "/v1/rules/otp/top"
		f.do("GET", top, "").want(t, 404, "reason", "unknown_rule")
		f.do("PUT", rule, `{"algorithm":"fixed_window","limit":2,"period":"1h","key":"{lane}"}`).want(t, 201)
		f.do("GET", top, "").want(t, 200, "by", "{lane}", "since", nil)
		f.do("PUT", "/v1/queues/otp", `{"rate":"1/s","rules":["otp"]}`).want(t, 201)
		for range 3 {
			f.do("POST", "/v1/queues/otp/jobs", `{"payload":1,"lane":"<b>"}`)
		}
		f.do("POST", rule+"/take", `{"key":"a"}`).want(t, 200)
		f.do("POST", rule+"/take", `{"key":"a","wait":"1ms"}`).want(t, 200)
		f.do("POST", rule+"/take", `{"takes":[{"key":"a"},{"key":"a"},{"key":"a","cost":0}]}`).want(t, 200)
		f.do("POST", rule+"/peek", `{"key":"a"}`).want(t, 200)
		f.do("POST", rule+"/refund", `{"key":"a"}`)
		a := f.do("GET", top, "")
		a.want(t, 200)
		text := strings.NewReplacer(" ", "", "\n", "").Replace(a.text)
		for _, want := range []string{
			`"asked":{"count":7,"keys":[{"key":"a","count":4,"error":0},{"key":"<b>","count":3,"error":0}]}`,
			`"refused":{"count":3,"keys":[{"key":"a","count":2,"error":0},{"key":"<b>","count":1,"error":0}]}`,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("not %s:\n%s", want, text)
			}
		}
	})
}

// What was counted of a rule that another process deleted or changed is not told of what stands in its place.
func TestTopIsOfTheRuleAsItStands(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, e queue.Engine) {
		const top = "/v1/rules/otp/top"
		put := func(key string) {
			t.Helper()
			rule := rules.Rule{
				Name: "otp", Algorithm: leaky.AlgorithmFixedWindow, Key: key,
				Bound: rules.Bound{Limit: 5, Period: unit.Duration(time.Hour)}, Action: rules.Reject, Away: rules.AwayOpen,
			}
			if _, err := e.PutRule(t.Context(), rule, queue.AnyRevision); err != nil {
				t.Fatal(err)
			}
		}
		take := func() { f.do("POST", "/v1/rules/otp/take", `{"key":"a"}`).want(t, 200) }
		counted := func(want float64) {
			t.Helper()
			await.Until(t, "the keys are those of the rule", func() bool {
				a := f.do("GET", top, "")
				a.want(t, 200)
				return a.body["asked"].(map[string]any)["count"] == want
			})
		}
		put("{lane}")
		take()
		take()
		counted(2)
		put("{queue}")
		counted(0)
		take()
		counted(1)
		if err := e.DeleteRule(t.Context(), "otp", queue.AnyRevision); err != nil {
			t.Fatal(err)
		}
		put("{queue}")
		counted(0)
		take()
		counted(1)
	})
}

// The keys of a rule may be parts of payloads, and are for those who may see these.
func TestTopByRole(t *testing.T) {
	s := secure(t, api.Options{})
	const top = "/v1/rules/" + acmeRule + "/top"
	s.by(s.with("acme", auth.View), "GET", top, "").want(t, 403, "reason", "forbidden")
	s.by(s.with("acme", auth.Payloads), "GET", top, "").want(t, 200)
	s.by(s.with("beta", auth.Payloads), "GET", top, "").want(t, 404, "reason", "unknown_rule")
}
