package grafana

import "fmt"

const (
	// ofTeam selects the queues of the chosen teams. A team is an app, or the first part of the queues' names.
	ofTeam = `queue=~"$team([-._].*)?"`
	// ofQueues selects the chosen queues.
	ofQueues = `queue=~"$queue",` + ofTeam
	// fromFirst is the reason for counters that begin with their first event.
	fromFirst = "no series until the first event"
)

var (
	byTeam  = Pick{Name: "team", Label: "queue", Metric: "penstock_jobs", Regex: `/^([^-._]+)/`}
	byQueue = Pick{Label: "queue", Metric: "penstock_jobs", Of: ofTeam}
	byRule  = Pick{Label: "rule", Metric: "penstock_rule_decisions_total"}
)

// marksOfQueues are the marks of dashboards with a team variable.
var marksOfQueues = []Mark{
	{
		Name: "Pauses", Color: "orange", Text: "{{queue}} is paused",
		Expr: `max by (queue) (penstock_paused{` + ofTeam + `}) == 1`,
	},
	{
		Name: "Open circuits", Color: "red", Text: "{{queue}}: the target is down",
		Expr: `max by (queue) (penstock_circuit_open{` + ofTeam + `}) == 1`,
	},
}

// deployments marks the first minutes of each version.
var deployments = Mark{
	Name: "Deployments", Color: "blue", Text: "{{job}} has version {{version}}",
	Expr: `count by (job, version) (penstock_build_info) unless count by (job, version) (penstock_build_info offset 5m)`,
}

// one returns a single query.
func one(expr, legend string) []Query { return []Query{{Expr: expr, Legend: legend}} }

// quiet returns a single query of a panel that is empty in a healthy system.
func quiet(expr, legend, why string) []Query {
	return []Query{{Expr: expr, Legend: legend, Quiet: why}}
}

// spread returns queries for the median and the 99th percentile of the selected series of a histogram, over all
// processes.
func spread(histogram, selector string) []Query {
	return []Query{
		{Expr: quantile(0.5, histogram, "", selector), Legend: "median"},
		{Expr: quantile(0.99, histogram, "", selector), Legend: "99%"},
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
