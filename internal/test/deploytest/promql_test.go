package deploytest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/app"
)

// expression is what one of PromQL asks for, as Prometheus reads it.
type expression struct {
	Selectors  []selector
	By         []string
	Aggregates bool
}

type selector struct {
	Metric   string
	Matchers []matcher
}

type matcher struct{ Label, Op, Value string }

// readExpressions has them read by Prometheus' own parser.
func readExpressions(t *testing.T, expressions []string) (read []expression, err error) {
	t.Helper()
	asked, err := json.Marshal(expressions)
	if err != nil {
		t.Fatal(err)
	}
	return read, readAs(t, string(asked), &read, "promql")
}

// faults are metrics that there are not, and labels and values that they do not have.
func (e *expression) faults(known map[string]metric, s *scraping) (found faults) {
	for _, sel := range e.Selectors {
		m, ok := known[sel.Metric]
		if !ok {
			found.add("docs/metrics.md does not tell of %s", sel.Metric)
			continue
		}
		for _, match := range sel.Matchers {
			if fault := m.refuses(match, s); fault != "" {
				found.add("%s", fault)
			}
		}
	}
	for _, by := range e.By {
		if !slices.ContainsFunc(e.Selectors, func(sel selector) bool {
			return slices.Contains(known[sel.Metric].onSeries(), by)
		}) {
			found.add("it is by %s, which none of its metrics has", by)
		}
	}
	return found
}

// keeps are the labels that its result has.
func (e *expression) keeps(known map[string]metric) []string {
	kept := slices.Clone(e.By)
	for _, sel := range e.Selectors {
		if m, ok := known[sel.Metric]; ok && !e.Aggregates {
			kept = append(kept, m.onSeries()...)
		}
	}
	return kept
}

// metric is one that there is.
type metric struct {
	name, about string
	labels      []string
}

var metricRow = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([\\w, ]*)\\| (.*) \\|$")

// metrics are those of docs/metrics.md, of the process, and Prometheus' own.
func metrics(t *testing.T) map[string]metric {
	t.Helper()
	known := map[string]metric{"up": {name: "up"}}
	for _, row := range metricRow.FindAllStringSubmatch(read(t, "docs/metrics.md"), -1) {
		known[row[1]] = metric{name: row[1], about: row[3], labels: strings.FieldsFunc(row[2], func(r rune) bool {
			return r == ',' || r == ' '
		})}
		if m := known[row[1]]; strings.HasPrefix(m.about, "histogram") {
			known[m.name+"_bucket"] = metric{m.name + "_bucket", m.about, append(slices.Clone(m.labels), "le")}
		}
	}
	gathered, err := app.NewRegistry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range gathered {
		if name := family.GetName(); !strings.HasPrefix(name, "penstock_") {
			known[name] = metric{name: name}
		}
	}
	return known
}

// onSeries are its labels as Prometheus keeps it. What is recorded has only those that it is by.
func (m metric) onSeries() []string {
	if strings.Contains(m.name, ":") {
		return m.labels
	}
	return append(slices.Clone(m.labels), "instance", "job")
}

// refuses says why nothing would match.
func (m metric) refuses(match matcher, s *scraping) string {
	if match.Label == "job" {
		jobs, err := regexp.Compile("^(?:" + match.Value + ")$")
		for _, scrape := range s.ScrapeConfigs {
			if err != nil || !jobs.MatchString(scrape.JobName) {
				return fmt.Sprintf("%s{job%s%q} leaves out %s: %v", m.name, match.Op, match.Value, scrape.JobName, err)
			}
		}
		return ""
	}
	if !slices.Contains(m.labels, match.Label) {
		return fmt.Sprintf("%s has no label %s", m.name, match.Label)
	}
	// All queues or rules without series of their own, perhaps with the suffix of a team's selector.
	if strings.HasPrefix(match.Value, "_other") && (match.Label == "queue" || match.Label == "rule") {
		return ""
	}
	for value := range strings.SplitSeq(match.Value, "|") {
		if !regexp.MustCompile(`\b` + regexp.QuoteMeta(value) + `\b`).MatchString(m.about) {
			return fmt.Sprintf("docs/metrics.md tells of no %s{%s=%q}", m.name, match.Label, value)
		}
	}
	return ""
}
