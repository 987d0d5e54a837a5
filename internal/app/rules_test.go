package app_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/redistest"
)

// What an ingress makes of rules: those of its queue's group, those of others, and what holds while Redis is away.
func TestRules(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t, redistest.Options{AppendFsync: "always"})
	engine, err := store.Open(t.Context(), store.Options{
		RedisURL: redis.URL(), Init: true, Partitions: 4, Patience: redistest.Patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	in, err := app.NewIngress(engine, app.IngressOptions{
		Listen: ops.Listen{Addr: "127.0.0.1:0"}, Registry: app.NewRegistry(), Patience: redistest.Patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = engine.Close()
	})
	do := func(method, path, sent string, want int, parts ...string) http.Header {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, in.URL()+path, strings.NewReader(sent))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		text := string(body)
		if resp.StatusCode != want {
			t.Errorf("%s %s: %d, want %d: %s", method, path, resp.StatusCode, want, text)
		}
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%s %s: no %s in %s", method, path, part, text)
			}
		}
		return resp.Header
	}
	for name, more := range map[string]string{
		"mail.otp": `"limit":2`, "tenants": `"limit":3`, "open": `"limit":1,"away":"open"`,
	} {
		do("PUT", "/v1/rules/"+name, `{"algorithm":"sliding_log","period":"1h",`+more+`}`, 201)
	}
	do("PUT", "/v1/queues/mail", `{"rate":"1/h","rules":["mail.otp","tenants"]}`, 201)

	head := do("POST", "/v1/queues/mail/jobs", `{"payload":1}`, 202)
	if got := head.Get("RateLimit-Policy"); got != `"tenants";q=3;w=3600, "mail.otp";q=2;w=3600` {
		t.Errorf("policy %s", got)
	}
	do("POST", "/v1/queues/mail/jobs", `{"payload":2}`, 202)
	do("POST", "/v1/queues/mail/jobs", `{"payload":3}`, 429, `"reason":"limit_reached"`, `"rule":"mail.otp"`)
	do("POST", "/v1/rules/tenants/take", ``, 200, `"remaining":0`) // what the third took was given back
	do("POST", "/v1/rules/mail.otp/reset", ``, 200)
	do("POST", "/v1/queues/mail/jobs", `{"payload":4}`, 429, `"rule":"tenants"`)
	do("POST", "/v1/rules/open/take", ``, 200)
	do("POST", "/v1/rules/open/take", ``, 429)
	do("GET", "/metrics", "", 200,
		`penstock_rule_decisions_total{outcome="allowed",rule="open"} 1`,
		`penstock_rule_decisions_total{outcome="refused",rule="open"} 1`,
		`penstock_rule_decisions_total{outcome="refused",rule="mail.otp"} 1`,
		`penstock_refused_total{queue="mail",reason="limit_reached"} 2`,
		`penstock_rule_decision_seconds_count{by="append",rule="mail.otp"} 3`,
		`penstock_rule_decision_seconds_count{by="take",rule="open"} 2`)

	do("PUT", "/v1/rules/gone", `{"algorithm":"gap","period":"1h"}`, 201)
	do("PUT", "/v1/queues/sms", `{"rate":"1/h","rules":["gone"]}`, 201)
	do("POST", "/v1/queues/sms/jobs", `{"payload":1}`, 202)
	do("DELETE", "/v1/rules/gone", "", 409, `"reason":"rule_in_use"`, `"queues":["sms"]`)
	do("DELETE", "/v1/rules/gone?force=true", "", 204)
	head = do(
		"POST", "/v1/queues/sms/jobs", `{"payload":2}`, 503, `"reason":"rule_missing"`, `"rule":"gone"`,
		"the queue sms asks the rule gone", `"retry_after_ms":5000`,
	)
	if got := head.Get("Retry-After"); got != "5" {
		t.Errorf("Retry-After %s", got)
	}
	do(
		"GET", "/metrics", "", 200, `penstock_rule_missing_total{rule="gone"} 1`,
		`penstock_refused_total{queue="sms",reason="rule_missing"} 1`,
	)
	do("PUT", "/v1/rules/gone", `{"algorithm":"gap","period":"1h"}`, 201)
	await.Until(t, "jobs come in again", func() bool {
		status, _ := call(t, "POST", in.URL()+"/v1/queues/sms/jobs", `{"payload":3,"id":"3"}`, "application/json")
		return status == 202 || status == 200
	})

	if err := redis.Kill(); err != nil {
		t.Fatal(err)
	}
	do("POST", "/v1/rules/open/take", ``, 200, `"allowed":true`)
	head = do("POST", "/v1/rules/tenants/take", ``, 429, `"reason":"limit_reached"`, `"retry_after_ms":1000`)
	if got := head.Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After %s", got)
	}
	do("POST", "/v1/rules/none/take", ``, 503, `"reason":"unavailable"`)
	do("PUT", "/v1/rules/open", `{"algorithm":"gap","period":"1s"}`, 503, `"reason":"unavailable"`)
	do(
		"GET", "/metrics", "", 200, `penstock_rule_away_total{decided="open",rule="open"}`,
		`penstock_rule_away_total{decided="closed",rule="tenants"}`, `penstock_rule_store_errors_total{`,
	)
	if err := redis.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "rules are asked again", func() bool {
		status, _ := call(t, "POST", in.URL()+"/v1/rules/open/take", "", "application/json")
		return status == 429
	})
}
