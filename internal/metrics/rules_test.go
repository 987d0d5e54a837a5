package metrics_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/penstock/penstock/admission"
	"github.com/penstock/penstock/internal/metrics"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/ruleset"
)

func putRule(t *testing.T, e queue.Rules, text string) {
	t.Helper()
	r, err := rules.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.PutRule(t.Context(), r, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
}

func putQueue(t *testing.T, e queue.Specs, text string) {
	t.Helper()
	s, err := queue.ParseSpec([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Put(t.Context(), s, 0); err != nil {
		t.Fatal(err)
	}
}

func onRedis(t *testing.T) queue.Engine {
	t.Helper()
	e, err := redisq.OpenClient(t.Context(), redistest.New(t, redistest.Options{}).Client(), redisq.Options{
		Init: true, Patience: redistest.Patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func take(t *testing.T, e queue.Taker, rule string, takes ...rules.Take) {
	t.Helper()
	if _, err := e.Take(t.Context(), rule, takes); err != nil && !errors.Is(err, rules.ErrUnknown) {
		t.Fatal(err)
	}
}

const decisionsHead = `
# HELP penstock_rule_decisions_total Decisions of rules: allowed, refused, or shadowed (a refusal by a rule ` +
	`that only counts).
# TYPE penstock_rule_decisions_total counter
`

func decisions(rule string, allowed, refused, shadowed int) string {
	return fmt.Sprintf(`penstock_rule_decisions_total{outcome="allowed",rule=%[1]q} %[2]d
penstock_rule_decisions_total{outcome="refused",rule=%[1]q} %[3]d
penstock_rule_decisions_total{outcome="shadowed",rule=%[1]q} %[4]d
`, rule, allowed, refused, shadowed)
}

// Decisions are counted by rule, never by key: for jobs of the rule's group and of other groups, for takes by name, and
// for requests.
func TestRules(t *testing.T) {
	for name, open := range map[string]func(*testing.T) queue.Engine{"embedded": embedded, "redis": onRedis} {
		t.Run(name, func(t *testing.T) {
			reg := prometheus.NewPedanticRegistry()
			asked, err := metrics.NewRules(reg, 0)
			if err != nil {
				t.Fatal(err)
			}
			e := asked.Over(open(t))
			a := admission.New(e, admission.Options{Observer: asked, Patience: redistest.Patience})
			putRule(t, e, `{"name":"mail.otp","algorithm":"gap","period":"1h","key":"{payload/to}"}`)
			putRule(t, e, `{"name":"mail.dark","algorithm":"gap","period":"1h","action":"shadow"}`)
			putRule(t, e, `{"name":"tenants","algorithm":"sliding_log","limit":5,"period":"1h"}`)
			putRule(t, e, `{"name":"calls","algorithm":"sliding_log","limit":2,"period":"1h"}`)
			putRule(t, e, `{"name":"named","algorithm":"gap","period":"1h","key":"{lane}"}`)
			putQueue(t, e, `{"name":"mail","rate":"14/s","rules":["mail.otp","mail.dark","tenants"]}`)

			jobs := []queue.Job{
				job("mail", "1", `{"to":"a"}`), job("mail", "2", `{"to":"a"}`), job("mail", "3", `{"to":"b"}`),
				job("mail", "4", `{}`),
			}
			if _, err := admission.NewAppender(a, e).Append(t.Context(), jobs); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Offer(t.Context(), []queue.Job{job("mail", "5", `{"to":"b"}`)}); err != nil {
				t.Fatal(err)
			}
			take(
				t, a, "named", rules.Take{Key: "secret-1"}, rules.Take{Key: "secret-1"}, rules.Take{Key: "secret-1", Cost: 2},
				rules.Take{Key: "secret-1", Op: rules.TakePeek},
			)
			take(t, a, "mail.dark", rules.Take{Op: rules.TakePeek})
			handler := admission.Middleware(
				a, "calls", admission.OneKey(), admission.MiddlewareOptions{},
			)(http.NotFoundHandler())
			for range 3 {
				handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
			}
			for range 5 {
				if _, err := a.Take(t.Context(), "none", []rules.Take{{}, {}}); err == nil {
					t.Fatal("there is no such rule")
				}
			}
			compare(t, reg, decisionsHead+decisions("calls", 2, 1, 0)+decisions("mail.dark", 1, 0, 3)+
				decisions("mail.otp", 2, 2, 0)+decisions("named", 1, 1, 0)+decisions("tenants", 4, 0, 0)+`
# HELP penstock_rule_failures_total Takes that failed without a decision, by reason.
# TYPE penstock_rule_failures_total counter
penstock_rule_failures_total{reason="invalid",rule="named"} 1
penstock_rule_failures_total{reason="unknown_rule",rule="_other"} 10
`, "penstock_rule_decisions_total", "penstock_rule_failures_total")
			// An append is one decision of each rule. A rule of another group also gets refunds for refused jobs.
			want := map[string]uint64{
				"mail.otp append": 2, "mail.dark append": 2, "mail.dark take": 1, "tenants take": 2, "calls take": 3,
				"named take": 1,
			}
			if got := timed(t, reg); !maps.Equal(got, want) {
				t.Errorf("timed %v, want %v", got, want)
			}
		})
	}
}

// The first rules have series of their own, all others share a label, and the series of a deleted rule end.
func TestSeriesOfRulesAreBounded(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	asked, err := metrics.NewRules(reg, 3)
	if err != nil {
		t.Fatal(err)
	}
	e := asked.Over(embedded(t))
	a := admission.New(e, admission.Options{Observer: asked, Patience: redistest.Patience})
	putRule(t, e, `{"name":"first","algorithm":"gap","period":"1h"}`)
	all := []rules.Taken{{Decision: leaky.Decision{Allowed: true}}}
	take(t, a, "first", rules.Take{})
	for i := range 1000 {
		rule := fmt.Sprint("r", i)
		asked.Answered(rule, []rules.Take{{}}, all, nil)
		asked.Asked(rule, time.Millisecond)
		for _, away := range []string{rules.AwayOpen, rules.AwayClosed, rules.AwayShare} {
			asked.Away(rule, away, 1, 1)
		}
	}
	for range 2 {
		asked.Failed("first", fmt.Errorf("asking: %w", queue.ErrUnavailable))
		asked.Failed("r0", queue.ErrOutcomeUnknown)
		asked.Failed("nobody-knows-it", queue.ErrStoreFull)
	}
	compare(t, reg, `
# HELP penstock_rule_store_errors_total Calls about a rule that the store did not answer, by reason, whatever `+
		`decided instead.
# TYPE penstock_rule_store_errors_total counter
penstock_rule_store_errors_total{reason="full",rule="_other"} 2
penstock_rule_store_errors_total{reason="outcome_unknown",rule="r0"} 2
penstock_rule_store_errors_total{reason="unavailable",rule="first"} 2
`, "penstock_rule_store_errors_total")
	for name, most := range map[string]int{
		"penstock_rule_decisions_total": 7 * 3, "penstock_rule_decision_seconds": 4, "penstock_rule_away_total": 6 * 4,
	} {
		if n, err := testutil.GatherAndCount(reg, name); err != nil || n != most {
			t.Errorf("%d series of %s, want %d: %v", n, name, most, err)
		}
	}

	asked.Away("first", rules.AwayOpen, 1, 0)
	if err := e.DeleteRule(t.Context(), "first", queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	gone(t, reg, "first")
	take(t, a, "r0") // which this process learns is not there, as of a rule that another one deleted
	gone(t, reg, "r0")
}

// All jobs without their rule are counted for an alert, also while clients request the missing rule.
func TestMissingRuleIsCountedDuringTakes(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	asked, err := metrics.NewRules(reg, 0)
	if err != nil {
		t.Fatal(err)
	}
	e := asked.Over(embedded(t))
	a := admission.New(e, admission.Options{Observer: asked, Patience: redistest.Patience})
	putRule(t, e, `{"name":"tenants","algorithm":"gap","period":"1h"}`)
	putQueue(t, e, `{"name":"mail","rate":"14/s","rules":["tenants"]}`)
	in := admission.NewAppender(a, e)
	if _, err := in.Append(t.Context(), []queue.Job{job("mail", "0", `{}`)}); err != nil {
		t.Fatal(err)
	}
	if err := e.DeleteRule(t.Context(), "tenants", queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	for i := range 3 { // the first is asked by what was read before
		got, err := in.Append(t.Context(), []queue.Job{job("mail", fmt.Sprint("more", i), `{}`)})
		if err != nil || !errors.As(got[0].Err, new(*ruleset.Missing)) {
			t.Fatalf("%+v: %v", got, err)
		}
		take(t, a, "tenants", rules.Take{})
	}
	compare(t, reg, `
# HELP penstock_rule_missing_total Jobs refused because their queue names a rule of another group that is `+
		`missing or not usable for jobs.
# TYPE penstock_rule_missing_total counter
penstock_rule_missing_total{rule="tenants"} 3
`, "penstock_rule_missing_total")
}

// timed returns the number of observed durations, by rule and kind.
func timed(t *testing.T, reg prometheus.Gatherer) map[string]uint64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]uint64{}
	for _, family := range families {
		for _, m := range family.Metric {
			if family.GetName() == "penstock_rule_decision_seconds" {
				n[m.Label[1].GetValue()+" "+m.Label[0].GetValue()] = m.Histogram.GetSampleCount() // rule, and by
			}
		}
	}
	return n
}

// gone fails if a rule has any series.
func gone(t *testing.T, reg prometheus.Gatherer, rule string) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.Metric {
			for _, l := range m.Label {
				if l.GetValue() == rule {
					t.Errorf("%s still has a series of %s", rule, family.GetName())
				}
			}
		}
	}
}
