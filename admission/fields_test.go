package admission_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/penstock/penstock/admission"
)

func TestSetFields(t *testing.T) {
	for _, c := range []struct {
		quotas        []admission.Quota
		policy, limit string
	}{
		{nil, "", ""},
		{[]admission.Quota{{Rule: "otp", Limit: 2, Remaining: 1, Window: time.Minute, More: 59*time.Second + 1}}, `"otp";q=2;w=60`, `"otp";r=1;t=60`},
		{[]admission.Quota{{Rule: "otp", Limit: 2, Window: 999 * time.Millisecond, More: time.Microsecond}}, `"otp";q=2`, `"otp";r=0;t=1`},
		{[]admission.Quota{{Rule: "otp", Limit: 2, Remaining: 2, Window: 1500 * time.Millisecond}}, `"otp";q=2;w=2`, `"otp";r=2`},
		{[]admission.Quota{{Rule: "api.places", Limit: 20, Remaining: 3, AtOnce: true}}, `"api.places";q=20;qu="concurrent-requests"`, `"api.places";r=3`},
		{
			[]admission.Quota{{Rule: "a", Limit: 1, Window: time.Second, More: time.Second}, {Rule: "a.b", Limit: 1e9, Remaining: 7, Window: time.Hour}},
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
