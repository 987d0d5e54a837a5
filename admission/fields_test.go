package admission_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/penstock/penstock/admission"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/rules"
)

func TestSetFields(t *testing.T) {
	for _, c := range []struct {
		quotas        []admission.Quota
		policy, limit string
	}{
		{nil, "", ""},
		{
			[]admission.Quota{{Rule: "otp", Limit: 2, Remaining: 1, Window: time.Minute, More: 59*time.Second + 1}},
			`"otp";q=2;w=60`, `"otp";r=1;t=60`,
		},
		{
			[]admission.Quota{{Rule: "otp", Limit: 2, Window: 999 * time.Millisecond, More: time.Microsecond}},
			`"otp";q=2`,
			`"otp";r=0;t=1`,
		},
		{
			[]admission.Quota{{Rule: "otp", Limit: 2, Remaining: 2, Window: 1500 * time.Millisecond}},
			`"otp";q=2;w=2`,
			`"otp";r=2`,
		},
		{
			[]admission.Quota{{Rule: "api.places", Limit: 20, Remaining: 3, AtOnce: true}},
			`"api.places";q=20;qu="concurrent-requests"`, `"api.places";r=3`,
		},
		{
			[]admission.Quota{
				{Rule: "a", Limit: 1, Window: time.Second, More: time.Second},
				{Rule: "a.b", Limit: 1e9, Remaining: 7, Window: time.Hour},
			},
			`"a";q=1;w=1, "a.b";q=1000000000;w=3600`, `"a";r=0;t=1, "a.b";r=7`,
		},
		{[]admission.Quota{{Rule: "odd", Limit: 1 << 62, Remaining: -1, More: -1}}, `"odd";q=999999999999999`, `"odd";r=0`},
	} {
		h := http.Header{}
		admission.SetFields(h, c.quotas)
		if policy, limit := h.Get("RateLimit-Policy"), h.Get("RateLimit"); policy != c.policy || limit != c.limit {
			t.Errorf("%+v: %s and %s, want %s and %s", c.quotas, policy, limit, c.policy, c.limit)
		}
	}
}

func TestQuotaOf(t *testing.T) {
	for _, c := range []struct{ rule, policy string }{
		{`{"name":"r","algorithm":"meter","rate":"3/s","burst":3}`, `"r";q=9;w=1`},
		{`{"name":"r","algorithm":"token_bucket","rate":"5/s"}`, `"r";q=9`},
		{`{"name":"r","algorithm":"token_bucket","rate":"1/h","burst":8760}`, `"r";q=9;w=31536000`},
		{`{"name":"r","algorithm":"fixed_window","limit":9,"period":"1h"}`, `"r";q=9;w=3600`},
		{`{"name":"r","algorithm":"sliding_log","limit":9,"period":"1h","resolution":"1s"}`, `"r";q=9;w=3600`},
		{`{"name":"r","algorithm":"sliding_counter","limit":9,"period":"90s"}`, `"r";q=9;w=90`},
		{`{"name":"r","algorithm":"gap","period":"500ms"}`, `"r";q=9`},
		{`{"name":"r","algorithm":"meter","rate":"2/m","overrides":{"k":{"rate":"100/m","burst":50}}}`, `"r";q=9;w=30`},
		{`{"name":"r","algorithm":"concurrency","limit":9,"ttl":"30s"}`, `"r";q=9;qu="concurrent-requests"`},
	} {
		rule, err := rules.Parse([]byte(c.rule))
		if err != nil {
			t.Error(err)
			continue
		}
		h := http.Header{}
		admission.SetFields(h, []admission.Quota{admission.QuotaOf(&rule, "k", &leaky.Decision{Allowed: true, Limit: 9})})
		if got := h.Get("RateLimit-Policy"); got != c.policy {
			t.Errorf("%s: %s, want %s", c.rule, got, c.policy)
		}
	}
	refused := admission.QuotaOf(&rules.Rule{Name: "r"}, "", &leaky.Decision{
		RetryAfter: time.Second, ResetAfter: time.Hour,
	})
	if refused.More != time.Second {
		t.Errorf("more after %v", refused.More)
	}
}
