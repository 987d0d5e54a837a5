package metrics_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/internal/metrics"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// Each quota of a queue has a series, until the quota is removed.
func TestQuotaGauges(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	e := embedded(t)
	g, err := metrics.NewGauges(reg, 0)
	if err != nil {
		t.Fatal(err)
	}
	limits := []queue.Limit{
		{Quota: queue.Quota{Max: 50, Per: "mo"}},
		{Rate: leaky.PerSecond(500)},
		{Quota: queue.Quota{Max: 900, Per: "mo"}},
		{Quota: queue.Quota{Max: 50, Per: "mo"}, Timezone: "Asia/Tokyo"},
	}
	want := func(limits []queue.Limit, series string) {
		t.Helper()
		spec := queue.Spec{Name: "a", Rate: leaky.PerSecond(1000), Burst: 10, Capacity: 10, Limits: limits, Pull: true}
		if _, err := e.Put(t.Context(), spec, queue.AnyRevision); err != nil {
			t.Fatal(err)
		}
		if err := refresh(t, g, e); err != nil {
			t.Fatal(err)
		}
		if series != "" {
			series = `
# HELP penstock_quota_left Unused part of a quota in its present window, in units of cost.
# TYPE penstock_quota_left gauge
` + series
		}
		compare(t, reg, series, "penstock_quota_left")
	}
	want(limits, `penstock_quota_left{queue="a",quota="50/mo"} 50
penstock_quota_left{queue="a",quota="900/mo"} 900
`)
	want(limits[1:3], `penstock_quota_left{queue="a",quota="900/mo"} 900
`)
	want(nil, "")
	want(limits[:1], `penstock_quota_left{queue="a",quota="50/mo"} 50
`)
	if err := e.Delete(t.Context(), "a", queue.AnyRevision, true); err != nil {
		t.Fatal(err)
	}
	if err := refresh(t, g, e); err != nil {
		t.Fatal(err)
	}
	compare(t, reg, "", "penstock_quota_left")
}
