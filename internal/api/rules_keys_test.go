package api_test

import (
	"strings"
	"testing"

	"github.com/penstock/penstock/queue"
)

// A key that finds no room in its rule is told from one that is over its limit, whether it comes with a job or by name.
func TestRuleFullOfKeys(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, _ queue.Engine) {
		const rules = "/v1/rules/"
		const spec = `{"algorithm":"fixed_window","limit":9,"period":"1h","max_keys":1,"key":"{payload/to}"}`
		const name = "email.to"
		f.do("PUT", rules+name, spec).want(t, 201, "max_keys", 1)
		f.do("POST", rules+name+"/take", `{"key":"a"}`).want(t, 200, "max_keys", nil)
		a := f.do("POST", rules+name+"/take", `{"key":"b"}`)
		a.want(t, 429, "reason", "limit_reached", "allowed", false, "rule", name, "max_keys", 1, "limit", 9, "remaining", 0)
		if ms, _ := a.body["retry_after_ms"].(float64); ms < 1 || ms > 3_600_000 {
			t.Errorf("again after %v", ms)
		}
		if detail, _ := a.body["detail"].(string); !strings.Contains(detail, "maximum of 1 keys") ||
			!strings.Contains(detail, "max_keys") {
			t.Errorf("detail %q", detail)
		}
		f.do("POST", rules+name+"/peek", `{"key":"b"}`).want(t, 200, "allowed", false, "max_keys", 1)
		f.do("GET", rules+name, "").want(t, 200, "max_keys", 1, "keys", map[string]any{"held": 1., "max": 1.})
		f.do("PUT", email, `{"rate":"14/s","rules":["`+name+`"]}`)
		a = f.do("POST", jobs, `{"payload":{"to":"b"}}`)
		a.want(t, 429, "reason", "limit_reached", "rule", name, "max_keys", 1)
		f.do("POST", jobs, `{"payload":{"to":"a"}}`).want(t, 202)
		f.do("PUT", rules+"bad", `{"algorithm":"gap","period":"1h","max_keys":0}`).want(t, 400, "field", "max_keys")
	})
}
