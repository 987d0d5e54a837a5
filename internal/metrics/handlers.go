package metrics

import (
	"cmp"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/drain"
)

// handlers exports which queues hold a drainer's handlers at the time of the scrape: the queues that hold the most, and
// the sum of the rest.
type handlers struct {
	usage   *drain.Usage
	most    int
	inUse   *prometheus.Desc
	ofApp   *prometheus.Desc
	longest *prometheus.Desc
	hanging *prometheus.Desc
}

// NewHandlers registers the metrics of a drainer's usage. maxQueues is the number of queues with series of their own; 0
// is the default.
func NewHandlers(reg prometheus.Registerer, usage *drain.Usage, maxQueues int) error {
	if maxQueues <= 0 {
		maxQueues = DefaultMaxQueues
	}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return register(reg, &handlers{
		usage: usage, most: maxQueues,
		inUse: desc("penstock_handlers_in_use", "Handlers of this drainer held by a queue.", "queue"),
		ofApp: desc(
			"penstock_app_handlers_in_use",
			"Handlers of this drainer held by all queues of an app with a share of the handlers.", "app",
		),
		longest: desc(
			"penstock_handler_longest_seconds", "Time that the longest-running handler has been working on its job.",
		),
		hanging: desc(
			"penstock_hanging_queues",
			"Queues that hold their maximum of this drainer's handlers, need more, and had no answer for 10 s.",
		),
	})
}

// Describe implements prometheus.Collector.
func (h *handlers) Describe(to chan<- *prometheus.Desc) {
	to <- h.inUse
	to <- h.ofApp
	to <- h.longest
	to <- h.hanging
}

// Collect implements prometheus.Collector.
func (h *handlers) Collect(to chan<- prometheus.Metric) {
	var others, hanging int
	var longest float64
	byApp := map[string]int{}
	for i, q := range h.usage.Queues() {
		longest = max(longest, q.Longest.Seconds())
		if q.Hanging {
			hanging++
		}
		if q.App != "" {
			byApp[q.App] += q.Handlers
		}
		switch {
		case q.Handlers == 0:
		case i < h.most:
			to <- prometheus.MustNewConstMetric(h.inUse, prometheus.GaugeValue, float64(q.Handlers), q.Queue)
		default:
			others += q.Handlers
		}
	}
	if others > 0 {
		to <- prometheus.MustNewConstMetric(h.inUse, prometheus.GaugeValue, float64(others), Other)
	}
	for app, n := range mostOf(byApp, h.most) {
		to <- prometheus.MustNewConstMetric(h.ofApp, prometheus.GaugeValue, float64(n), app)
	}
	to <- prometheus.MustNewConstMetric(h.longest, prometheus.GaugeValue, longest)
	to <- prometheus.MustNewConstMetric(h.hanging, prometheus.GaugeValue, float64(hanging))
}

// mostOf returns the n greatest counts, and the sum of the rest under Other.
func mostOf(counts map[string]int, n int) map[string]int {
	if len(counts) <= n {
		return counts
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	most := map[string]int{}
	for i, name := range names {
		if i >= n {
			name = Other
		}
		most[name] += counts[names[i]]
	}
	return most
}
