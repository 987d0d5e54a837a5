package grafana

import "fmt"

const (
	// ofQueues selects the chosen queues.
	ofQueues = `queue=~"$queue"`
	// fromFirst is the reason for counters that begin with their first event.
	fromFirst = "no series until the first event"
)

var (
	byQueue = Pick{Label: "queue", Metric: "penstock_jobs"}
	byRule  = Pick{Label: "rule", Metric: "penstock_rule_decisions_total"}
)

// one returns a single query.
func one(expr, legend string) []Query { return []Query{{Expr: expr, Legend: legend}} }

// quiet returns a single query of a panel that is empty in a healthy system.
func quiet(expr, legend, why string) []Query {
	return []Query{{Expr: expr, Legend: legend, Quiet: why}}
}

// spread returns queries for the median and the 99th percentile of a histogram, over all processes.
func spread(histogram string) []Query {
	return []Query{
		{Expr: quantile(0.5, histogram, "", ""), Legend: "median"},
		{Expr: quantile(0.99, histogram, "", ""), Legend: "99%"},
	}
}

// quantile returns a query for a quantile of a histogram over all processes. by is an optional label to group by, and
// selector selects series.
func quantile(q float64, histogram, by, selector string) string {
	if by != "" {
		by = ", " + by
	}
	return fmt.Sprintf(
		"histogram_quantile(%v, sum by (le%s) (rate(%s_bucket{%s}[$__rate_interval])))", q, by, histogram, selector,
	)
}
