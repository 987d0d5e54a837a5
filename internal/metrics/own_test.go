package metrics_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/internal/metrics"
	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/queue"
)

// An app gets the metrics of its own queues and rules, even if they share series in the whole. It gets no names of
// other apps and no sums over all apps.
func TestOwn(t *testing.T) {
	reg, inner := prometheus.NewPedanticRegistry(), embedded(t)
	e, err := metrics.NewEngine(inner, reg, 2)
	if err != nil {
		t.Fatal(err)
	}
	g, err := metrics.NewGauges(reg, 2)
	if err != nil {
		t.Fatal(err)
	}
	decisions := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "decisions_total"}, []string{"queue", "rule"})
	reg.MustRegister(decisions)
	for _, labels := range [][]string{{"beta-a", "acme-r"}, {"acme-z", "beta-r"}, {"acme-z", "acme-r"}} {
		decisions.WithLabelValues(labels...).Inc()
	}
	for _, name := range []string{"beta-a", "acme-z", "beta-b", "acme-y", "beta-secret"} {
		put(t, e, name, 10)
		if _, err := e.Append(t.Context(), []queue.Job{job(name, "1", "1")}); err != nil {
			t.Fatal(err)
		}
	}
	s := survey.New(e, survey.Options{})
	if err := s.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.Refresh(t.Context(), e, s.Latest().Rows()); err != nil {
		t.Fatal(err)
	}
	own := metrics.Own{
		All: reg, Rows: s.Latest().Rows(), App: "acme",
		Sees: func(name string) bool { return strings.HasPrefix(name, "acme-") || name == metrics.Other },
	}
	compare(t, own, `
# HELP decisions_total 
# TYPE decisions_total counter
decisions_total{app="acme",queue="acme-z",rule="acme-r"} 1
# HELP penstock_appended_total Jobs accepted, or already present (outcome duplicate).
# TYPE penstock_appended_total counter
penstock_appended_total{app="acme",outcome="accepted",queue="acme-z"} 1
penstock_appended_total{app="acme",outcome="duplicate",queue="acme-z"} 0
# HELP penstock_queue_capacity Maximum number of jobs in the queue: waiting, scheduled, leased and held together.
# TYPE penstock_queue_capacity gauge
penstock_queue_capacity{app="acme",queue="acme-y"} 10
penstock_queue_capacity{app="acme",queue="acme-z"} 10
# HELP penstock_queue_delay_seconds Time that a job without a lane would wait if it were added now; +Inf is forever.
# TYPE penstock_queue_delay_seconds gauge
penstock_queue_delay_seconds{app="acme",queue="acme-y"} +Inf
penstock_queue_delay_seconds{app="acme",queue="acme-z"} +Inf
# HELP penstock_queues Number of queues.
# TYPE penstock_queues gauge
penstock_queues{app="acme"} 2
`, "decisions_total", "penstock_queue_delay_seconds", "penstock_appended_total", "penstock_queue_capacity",
		"penstock_queues")
	for _, app := range []string{"acme", ""} {
		own.App = app
		families, err := own.Gather()
		if err != nil || len(families) < 10 {
			t.Fatalf("%d families, %v", len(families), err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				text := m.String()
				if strings.Contains(text, "beta") || strings.Contains(text, metrics.Other) ||
					strings.Contains(text, `"app"`) != (app != "") {
					t.Errorf("app %q sees %s: %s", app, f.GetName(), text)
				}
			}
		}
	}
	// The whole is unchanged.
	compare(t, reg, `
# HELP penstock_queues Number of queues.
# TYPE penstock_queues gauge
penstock_queues 5
`, "penstock_queues")
}

// However many queues an app has, MaxOwn of them are exported.
func TestOwnIsBounded(t *testing.T) {
	all := func(string) bool { return true }
	own := metrics.Own{All: prometheus.NewRegistry(), Rows: rows(metrics.MaxOwn + 5), Sees: all}
	families, err := own.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		switch n := len(f.GetMetric()); f.GetName() {
		case "penstock_queue_capacity":
			if n != metrics.MaxOwn {
				t.Errorf("%d queues are shown", n)
			}
		case "penstock_queues":
			if n := f.GetMetric()[0].GetGauge().GetValue(); n != metrics.MaxOwn+5 {
				t.Errorf("there are %v queues", n)
			}
		}
	}
}

// rows returns n queues, a tenth for each of ten apps.
func rows(n int) []*survey.Row {
	all := make([]*survey.Row, n)
	for i := range all {
		name := fmt.Sprintf("app%d-q%06d", i%10, i)
		info := &queue.Info{Spec: queue.Spec{Name: name, Capacity: 10}}
		all[i] = &survey.Row{Reading: queue.Reading{Name: name}, Info: info}
	}
	return all
}

// BenchmarkOwn measures a scrape by an app with a tenth of all queues.
func BenchmarkOwn(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		own := metrics.Own{
			All: prometheus.NewRegistry(), Rows: rows(n), App: "app7",
			Sees: func(name string) bool { return strings.HasPrefix(name, "app7-") },
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, err := own.Gather(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
