package metrics

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/penstock/penstock/internal/survey"
)

// MaxOwn is the maximum number of queues that Own exports, the first by name.
const MaxOwn = 1000

// Own gathers the metrics of the queues and rules that a caller may see. Each has the label app, unless App is empty.
type Own struct {
	// All provides the counters and histograms, for the queues and rules that have series of their own there.
	All prometheus.Gatherer
	// Rows are all queues by name, see survey.Snapshot. They provide the gauges.
	Rows []*survey.Row
	App  string
	// Sees reports whether the caller may see a queue or rule.
	Sees func(name string) bool
}

// Gather implements prometheus.Gatherer.
func (o Own) Gather() ([]*dto.MetricFamily, error) {
	var label prometheus.Labels
	if o.App != "" {
		label = prometheus.Labels{"app": o.App}
	}
	own, err := o.gauges(label)
	if err != nil {
		return nil, err
	}
	all, err := o.All.Gather()
	if err != nil {
		return nil, err
	}
	has := map[string]bool{}
	for _, family := range own {
		has[family.GetName()] = true
	}
	for _, family := range all {
		if has[family.GetName()] {
			continue
		}
		if metrics := o.visible(family.GetMetric()); len(metrics) > 0 {
			own = append(own, &dto.MetricFamily{
				Name: family.Name, Help: family.Help, Type: family.Type, Unit: family.Unit, Metric: metrics,
			})
		}
	}
	slices.SortFunc(own, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return own, nil
}

// gauges returns the gauges of the visible queues, including queues that share the label Other in All.
func (o Own) gauges(label prometheus.Labels) ([]*dto.MetricFamily, error) {
	reg, g := prometheus.NewRegistry(), newQueueGauges(label)
	queues := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "penstock_queues", Help: "Number of queues.", ConstLabels: label,
	})
	if err := register(reg, append(g.vecs(), queues)...); err != nil {
		return nil, err
	}
	n, now := 0, time.Now()
	for _, row := range o.Rows {
		if !o.Sees(row.Name) {
			continue
		}
		if n++; n <= MaxOwn {
			g.set(row.Info, now)
			g.outlook(row.Name, row.Outlook, row.Info.Now)
		}
	}
	queues.Set(float64(n))
	return reg.Gather()
}

// visible returns the metrics of queues and rules that the caller may see. It omits metrics without such a label and
// metrics of Other, because they cover all apps.
func (o Own) visible(all []*dto.Metric) (kept []*dto.Metric) {
	for _, m := range all {
		labels := m.GetLabel()
		if !o.seesAll(labels) {
			continue
		}
		if o.App != "" { // append to a copy: the registry keeps the labels
			key := "app"
			labels = append([]*dto.LabelPair{{Name: &key, Value: &o.App}}, labels...)
			slices.SortFunc(labels, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
		}
		kept = append(kept, &dto.Metric{
			Label: labels, Gauge: m.Gauge, Counter: m.Counter, Summary: m.Summary, Untyped: m.Untyped, Histogram: m.Histogram,
			TimestampMs: m.TimestampMs,
		})
	}
	return kept
}

// seesAll reports whether the labels name a queue or rule, and only ones that the caller may see.
func (o Own) seesAll(labels []*dto.LabelPair) bool {
	named := false
	for _, l := range labels {
		if name := l.GetValue(); l.GetName() == "queue" || l.GetName() == "rule" {
			if name == Other || !o.Sees(name) {
				return false
			}
			named = true
		}
	}
	return named
}
