package api_test

import (
	"fmt"
	"testing"

	"github.com/penstock/penstock/queue"
)

// A take states its cost in the unit of its rule, and one further request corrects it.
func TestTakesInUnits(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, _ queue.Engine) {
		const rule = "/v1/rules/llm"
		f.do("PUT", rule, `{"algorithm":"budget","rate":"100/h","burst":100}`).want(t, 400, "field", "unit")
		f.do("PUT", rule, `{"algorithm":"budget","unit":"tokens","rate":"100/h","burst":100,"key":"{lane}"}`).want(t, 201)
		f.do("GET", rule, "").want(t, 200, "unit", "tokens")
		taken := f.do("POST", rule+"/take", `{"key":"k","costs":{"tokens":80}}`)
		taken.want(t, 200, "remaining", 20)
		id, _ := taken.body["take"].(string)
		if id == "" {
			t.Fatalf("no take in %s", taken.text)
		}
		correct := func(key, id, actual string) *answer {
			return f.do("POST", rule+"/correct", fmt.Sprintf(`{"key":%q,"take":%q,"actual":%s}`, key, id, actual))
		}
		for _, tt := range []struct{ actual, field string }{
			{`{"tokens":-1}`, "actual.tokens"},
			{`{"tokens":1000000000000000000}`, "actual.tokens"},
			{`{"tokens":null}`, "actual.tokens"},
			{`{"images":1}`, "actual.images"},
			{`{"a":1,"b":1,"c":1,"d":1,"tokens":1}`, "actual"},
			{`{}`, "actual"},
		} {
			correct("k", id, tt.actual).want(t, 400, "field", tt.field)
		}
		for _, actual := range []string{"NaN", "1e99", `"5"`, "1.5"} {
			correct("k", id, `{"tokens":`+actual+`}`).want(t, 400)
		}
		correct("other", id, `{"tokens":1}`).want(t, 400, "field", "take")
		correct("k", "unknown", `{"tokens":1}`).want(t, 400, "field", "take")
		for range 2 {
			correct("k", id, `{"tokens":30}`).want(t, 200, "allowed", true)
		}
		f.do("POST", rule+"/peek", `{"key":"k","costs":{"tokens":70}}`).want(t, 200, "remaining", 0)
		f.do("POST", rule+"/take", `{"key":"k"}`).want(t, 400, "field", "costs.tokens")
		f.do("POST", rule+"/take", `{"key":"k","cost":5}`).want(t, 400, "field", "costs.tokens")
		f.do("POST", rule+"/take", `{"key":"k","costs":{"tokens":5},"cost":5}`).want(t, 400, "field", "cost")
		f.do("POST", rule+"/refund", `{"key":"k","costs":{"tokens":5}}`).want(t, 400, "field", "op")
	})
}
