package api_test

import (
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

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
