// Package grafana has the dashboards of Penstock as Go values; the JSON files beside it, which Grafana imports, are
// made of them by go generate. What they show is asked of Prometheus, with the rules in ../prometheus/recording.yml.
//
// A dashboard answers, from top to bottom, an operator's three questions: what is moving, why does this not move, and
// what happens if I change that. internal/test/deploytest holds each query to docs/metrics.md, and looks for its data
// in a running Penstock.
package grafana

// Dashboard is one page of Grafana, and one file here.
type Dashboard struct {
	// Name is that of its file, and its address in Grafana.
	Name, Title, About string
	// Picks are what can be chosen at its top, beside the data source.
	Picks []Pick
	Rows  []Row
}

// Pick is a label whose values can be chosen, all of them at first. A query names it as $LABEL.
type Pick struct {
	Label string
	// Metric is one that has the label.
	Metric string
}

// Row is panels side by side, under a title if it has one.
type Row struct {
	Title  string
	Height int
	Panels []Panel
}

// Panel is one picture. The widths of a row's panels add up to 24.
type Panel struct {
	Title string
	// About is what it shows, or what to do about it, in one sentence.
	About string
	Kind  Kind
	Width int
	Unit  Unit
	// Stacked are series that add up to something.
	Stacked bool
	// Warn and Bad are the values from which it is orange and red; 0 is never.
	Warn, Bad float64
	// BadBelow is the value below which it is red, in place of those; 0 is never.
	BadBelow float64
	Queries  []Query
}

// Query is an expression of PromQL, and what its series are called. A legend of {{label}} takes the label's value.
type Query struct {
	Expr, Legend string
	// Quiet says why there is no data while all is well; without it there always is. It ends "there is none ...".
	Quiet string
}

// Kind is how a panel shows its series.
type Kind string

// What a panel can be.
const (
	Chart    Kind = "timeseries"
	Number   Kind = "stat"           // the latest value
	Bars     Kind = "bargauge"       // the latest value of each series
	Table    Kind = "table"          // labels and latest value of each series
	Timeline Kind = "state-timeline" // when each series was there
)

// Unit is what a value counts, by Grafana's name for it.
type Unit string

// The units that there are.
const (
	Count   Unit = "short"
	Rate    Unit = "cps" // a second
	Share   Unit = "percentunit"
	Seconds Unit = "s"
	Bytes   Unit = "bytes"
)

// All are the dashboards.
var All = []Dashboard{overview, queue, lanes, overflow, drainers, store}
