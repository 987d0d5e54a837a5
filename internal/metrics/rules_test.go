package metrics_test

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/penstock/penstock/internal/metrics"
	"github.com/penstock/penstock/queue"
)

func putRule(t *testing.T, e queue.Rules, text string) {
	t.Helper()
	r, err := queue.ParseRule([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.PutRule(t.Context(), r, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
}

func take(t *testing.T, e queue.Rules, rule string, takes ...queue.Take) {
	t.Helper()
	if _, err := e.Take(t.Context(), rule, takes); err != nil {
		t.Fatal(err)
	}
}

const decisionsHead = `
# HELP penstock_rule_decisions_total What rules said: allowed, refused, or shadowed, which a rule that only counts would have refused.
# TYPE penstock_rule_decisions_total counter
`

func decisions(rule string, allowed, refused, shadowed int) string {
	return fmt.Sprintf(`penstock_rule_decisions_total{outcome="allowed",rule=%[1]q} %[2]d
penstock_rule_decisions_total{outcome="refused",rule=%[1]q} %[3]d
penstock_rule_decisions_total{outcome="shadowed",rule=%[1]q} %[4]d
`, rule, allowed, refused, shadowed)
}

// What rules say is counted by rule, whether jobs were asked or anybody asked by name; never by key.
func TestRules(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	e, err := metrics.NewEngine(embedded(t), nil, reg, 3)
	if err != nil {
		t.Fatal(err)
	}
	putRule(t, e, `{"name":"mail.otp","algorithm":"gap","period":"1h","key":"{payload/to}"}`)
	putRule(t, e, `{"name":"mail.dark","algorithm":"gap","period":"1h","action":"shadow"}`)
	for _, name := range []string{"c", "d", "e"} {
		putRule(t, e, `{"name":"`+name+`","algorithm":"gap","period":"1h"}`)
	}
	s, err := queue.ParseSpec([]byte(`{"name":"mail","rate":"14/s","rules":["mail.otp","mail.dark"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Put(t.Context(), s, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Append(t.Context(), []queue.Job{job("mail", "1", `{"to":"a"}`), job("mail", "2", `{"to":"a"}`), job("mail", "3", `{"to":"b"}`), job("mail", "4", `{}`)}); err != nil {
		t.Fatal(err)
	}
	take(t, e, "c", queue.Take{Key: "secret-1"}, queue.Take{Key: "secret-1"}, queue.Take{Key: "secret-1", Cost: 2}, queue.Take{Key: "secret-1", Op: queue.TakePeek})
	take(t, e, "mail.dark", queue.Take{Key: "other", Op: queue.TakePeek})
	take(t, e, "d", queue.Take{}) // beyond the first three
	take(t, e, "e", queue.Take{})
	for range 5 {
		if _, err := e.Take(t.Context(), "none", []queue.Take{{}, {}}); err == nil {
			t.Fatal("there is no such rule")
		}
	}
	compare(t, reg, decisionsHead+decisions("_other", 2, 0, 0)+decisions("c", 1, 1, 0)+decisions("mail.dark", 1, 0, 2)+decisions("mail.otp", 2, 1, 0)+`
# HELP penstock_rule_failures_total Questions to rules that were not answered, by reason.
# TYPE penstock_rule_failures_total counter
penstock_rule_failures_total{reason="invalid",rule="c"} 1
penstock_rule_failures_total{reason="unknown_rule",rule="_other"} 10
`, "penstock_rule_decisions_total", "penstock_rule_failures_total")
	if n := testutil.CollectAndCount(reg, "penstock_rule_take_seconds"); n != 1 {
		t.Errorf("%d histograms of takes", n)
	}

	// A deleted rule's series end, and its slot is free again.
	if err := e.DeleteRule(t.Context(), "c", queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	take(t, e, "d", queue.Take{Key: "x"})
	compare(t, reg, decisionsHead+decisions("_other", 2, 0, 0)+decisions("d", 1, 0, 0)+decisions("mail.dark", 1, 0, 2)+decisions("mail.otp", 2, 1, 0),
		"penstock_rule_decisions_total")
}
