package grafana

import "fmt"

const (
	// ofQueues chooses the queues that were picked.
	ofQueues = `queue=~"$queue"`
	// fromFirst ends the reason of a counter that begins with what it counts.
	fromFirst = "there is none until the first one happens"
)

var (
	byQueue = Pick{Label: "queue", Metric: "penstock_jobs"}
	byRule  = Pick{Label: "rule", Metric: "penstock_rule_decisions_total"}
)

// one is the query of a panel that has a single one.
func one(expr, legend string) []Query { return []Query{{Expr: expr, Legend: legend}} }

// quiet is that of a panel that is empty while all is well.
func quiet(expr, legend, why string) []Query {
	return []Query{{Expr: expr, Legend: legend, Quiet: why}}
}

// spread are the median and the 99th percentile of a histogram, over all processes.
func spread(histogram string) []Query {
	return []Query{
		{Expr: quantile(0.5, histogram, "", ""), Legend: "median"},
		{Expr: quantile(0.99, histogram, "", ""), Legend: "99%"},
	}
}

// quantile is one of a histogram over all processes; by is "" or a label to tell apart, and selector chooses series.
func quantile(q float64, histogram, by, selector string) string {
	if by != "" {
		by = ", " + by
	}
	return fmt.Sprintf(
		"histogram_quantile(%v, sum by (le%s) (rate(%s_bucket{%s}[$__rate_interval])))", q, by, histogram, selector,
	)
}
