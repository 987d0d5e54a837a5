// Package grafana defines Penstock's dashboards as Go values. go generate makes the JSON files beside it, which Grafana
// imports. The queries use Prometheus with the rules in ../prometheus/recording.yml.
//
// From top to bottom, a dashboard answers an operator's three questions: what is moving, why does this not move, and
// what happens if I change that. internal/test/deploytest checks each query against docs/metrics.md and runs it
// against a running Penstock.
package grafana

import "slices"

// Dashboard is a Grafana dashboard and the file of the same name.
type Dashboard struct {
	// Name is the name of the file, and part of the URL in Grafana.
	Name, Title, About string
	// Picks are the variables at the top, besides the data source.
	Picks []Pick
	Rows  []Row
}

// Pick is a variable with values of a label that the user can choose; initially all are chosen. Queries refer to it as
// $NAME.
type Pick struct {
	// Name is the name of the variable; "" is Label.
	Name, Label string
	// Metric is a metric with the label, and Of an optional selector of its series.
	Metric, Of string
	// Regex, if not "", cuts each value to its first group.
	Regex string
}

// Mark is a query whose series mark times in all charts of a dashboard: a span for as long as a series exists.
type Mark struct {
	Name, Expr, Color string
	// Text describes the mark. {{label}} becomes the label's value.
	Text string
}

// Row is a row of panels with an optional title.
type Row struct {
	Title  string
	Height int
	Panels []Panel
}

// Panel is a single chart. The widths of a row's panels add up to 24.
type Panel struct {
	Title string
	// About describes the panel, or a remedy, in one sentence.
	About string
	Kind  Kind
	Width int
	Unit  Unit
	// Stacked stacks series with a meaningful sum.
	Stacked bool
	// Warn and Bad are the values from which the panel is orange and red; 0 disables them.
	Warn, Bad float64
	// BadBelow, if not 0, makes the panel red below this value, instead of Warn and Bad.
	BadBelow float64
	Queries  []Query
}

// Query is a PromQL expression with the legend of its series. {{label}} in a legend becomes the label's value.
type Query struct {
	Expr, Legend string
	// Quiet states why a healthy system has no data. Without it, there must always be data. It contains "no series".
	Quiet string
}

// Kind is how a panel shows its series.
type Kind string

// Kinds of panels.
const (
	Chart    Kind = "timeseries"
	Heatmap  Kind = "heatmap"        // the buckets of a histogram over time
	Number   Kind = "stat"           // the latest value
	Bars     Kind = "bargauge"       // the latest value of each series
	Table    Kind = "table"          // labels and latest value of each series
	Timeline Kind = "state-timeline" // times at which each series existed
)

// Unit is the unit of values, with Grafana's name.
type Unit string

// Units of values.
const (
	Count   Unit = "short"
	Rate    Unit = "cps" // per second
	Share   Unit = "percentunit"
	Seconds Unit = "s"
	Bytes   Unit = "bytes"
)

// All lists the dashboards.
var All = []Dashboard{overview, queue, lanes, overflow, drainers, store}

// Marks returns the marks of the dashboard.
func (d Dashboard) Marks() []Mark {
	if slices.Contains(d.Picks, byTeam) {
		return append(slices.Clone(marksOfQueues), deployments)
	}
	return []Mark{deployments}
}
