package deploytest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/penstock/penstock/internal/app"
)

// scraping is what prometheus.yml may hold.
type scraping struct {
	Global struct {
		ScrapeInterval     string `yaml:"scrape_interval"`
		EvaluationInterval string `yaml:"evaluation_interval"`
	}
	RuleFiles     []string `yaml:"rule_files"`
	ScrapeConfigs []struct {
		JobName       string                       `yaml:"job_name"`
		StaticConfigs []struct{ Targets []string } `yaml:"static_configs"`
		DNSSDConfigs  []struct {
			Names           []string
			Type            string
			Port            int
			RefreshInterval string `yaml:"refresh_interval"`
		} `yaml:"dns_sd_configs"`
	} `yaml:"scrape_configs"`
}

// alerting is what alerts.yml may hold.
type alerting struct {
	Groups []struct {
		Name  string
		Rules []rule
	}
}

type rule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

// alerted are the metrics that somebody must be told of.
var alerted = []string{
	"up", "penstock_refreshed_timestamp_seconds", "penstock_oldest_waiting_seconds", "penstock_lost_slots_total",
	"penstock_leases_expired_total", "penstock_refused_total", "penstock_deliveries_total",
	"penstock_overflow_failures_total",
	"penstock_deferred_oldest_age_seconds", "penstock_dead_letters_total", "penstock_dead_letter_failures_total",
	"penstock_deferred_missing_total",
	"penstock_store_used_bytes", "penstock_jobs", "penstock_circuit_open", "penstock_queue_stopped_seconds",
	"penstock_pull_jobs_total",
}

func prometheusFaults(t *testing.T, deploy files) (found faults) {
	var s scraping
	if err := yaml.Load([]byte(deploy["prometheus/prometheus.yml"]), &s, yaml.WithKnownFields()); err != nil {
		found.add("prometheus.yml: %v", err)
	}
	var a alerting
	if err := yaml.Load([]byte(deploy["prometheus/alerts.yml"]), &a, yaml.WithKnownFields()); err != nil {
		found.add("alerts.yml: %v", err)
	}
	if len(found) > 0 {
		return found
	}
	found = append(found, scrapeFaults(t, deploy, &s)...)
	var rules []rule
	names := map[string]bool{}
	for _, group := range a.Groups {
		for _, r := range group.Rules {
			if names[r.Alert] || r.Alert == "" {
				found.add("an alert %q is there twice, or has no name", r.Alert)
			}
			names[r.Alert] = true
			rules = append(rules, r)
		}
	}
	if len(rules) < 15 {
		found.add("%d alerts", len(rules))
	}
	return append(found, ruleFaults(t, rules, &s)...)
}

// What is scraped is what compose.yaml starts, where it listens.
func scrapeFaults(t *testing.T, deploy files, s *scraping) (found faults) {
	p, err := readCompose(t, deploy)
	if err != nil {
		found.add("compose.yaml: %v", err)
		return found
	}
	byName := map[string]bool{}
	scraped := map[string]string{}
	for _, job := range s.ScrapeConfigs {
		for _, c := range job.StaticConfigs {
			for _, target := range c.Targets {
				host, port, err := net.SplitHostPort(target)
				if err != nil {
					found.add("%s: %v", target, err)
				}
				scraped[host], byName[host] = port, true
			}
		}
		for _, c := range job.DNSSDConfigs {
			for _, name := range c.Names {
				scraped[name] = fmt.Sprint(c.Port)
			}
		}
	}
	for name, service := range p.Services {
		if !service.ours() {
			continue
		}
		_, port, _ := strings.Cut(cmp.Or(option(service.argv(), "--health-listen"), option(service.argv(), "--listen")), ":")
		if scraped[name] != port {
			found.add("%s listens at port %s and is scraped at port %q", name, port, scraped[name])
		}
		if byName[name] && !slices.Contains(strings.Split(service.Environment["PENSTOCK_HOST"], ","), name) {
			found.add("%s is scraped by a name that its PENSTOCK_HOST does not have", name)
		}
		delete(scraped, name)
	}
	for name := range scraped {
		found.add("%s is scraped, and no service of ours", name)
	}
	for _, file := range s.RuleFiles {
		if _, ok := deploy["prometheus/"+file]; !ok {
			found.add("there is no %s", file)
		}
	}
	return found
}

func ruleFaults(t *testing.T, rules []rule, s *scraping) (found faults) {
	expressions := make([]string, len(rules))
	for i, r := range rules {
		expressions[i] = r.Expr
	}
	asked, err := json.Marshal(expressions)
	if err != nil {
		t.Fatal(err)
	}
	var read []expression
	if err := readAs(t, string(asked), &read, "promql"); err != nil {
		found.add("alerts.yml: %v", err)
		return found
	}
	known := metrics(t)
	for _, name := range alerted {
		if !slices.ContainsFunc(read, func(e expression) bool {
			return slices.ContainsFunc(e.Selectors, func(sel selector) bool { return sel.Metric == name })
		}) {
			found.add("no alert is about %s", name)
		}
	}
	for i, r := range rules {
		say := func(format string, args ...any) { found.add(r.Alert+": "+format, args...) }
		if r.For != "" {
			if _, err := time.ParseDuration(r.For); err != nil {
				say("for: %v", err)
			}
		}
		if severity := r.Labels["severity"]; len(r.Labels) != 1 || severity != "page" && severity != "ticket" ||
			r.Annotations["summary"] == "" {
			say("its severity is %q, and its summary %q", severity, r.Annotations["summary"])
		}
		kept := read[i].By
		for _, sel := range read[i].Selectors {
			m, ok := known[sel.Metric]
			if !ok {
				say("docs/metrics.md does not tell of %s", sel.Metric)
				continue
			}
			if !read[i].Aggregates {
				kept = append(kept, m.labels...)
				kept = append(kept, "instance", "job")
			}
			for _, match := range sel.Matchers {
				if fault := m.refuses(match, s); fault != "" {
					say("%s", fault)
				}
			}
		}
		for _, by := range read[i].By {
			if !slices.ContainsFunc(read[i].Selectors, func(sel selector) bool {
				return slices.Contains(append(known[sel.Metric].labels, "instance", "job"), by)
			}) {
				say("it is by %s, which none of its metrics has", by)
			}
		}
		for _, text := range r.Annotations {
			if err := annotates(text, kept); err != nil {
				say("%v", err)
			}
		}
	}
	return found
}

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
	if match.Label == "queue" && match.Value == "_other" { // of all queues without series of their own
		return ""
	}
	for value := range strings.SplitSeq(match.Value, "|") {
		if !regexp.MustCompile(`\b` + regexp.QuoteMeta(value) + `\b`).MatchString(m.about) {
			return fmt.Sprintf("docs/metrics.md tells of no %s{%s=%q}", m.name, match.Label, value)
		}
	}
	return ""
}

// annotates reads a text as Prometheus does, where only these labels are there.
func annotates(text string, labels []string) error {
	there := map[string]string{}
	for _, name := range labels {
		there[name] = name
	}
	same := func(v any) any { return v }
	read, err := template.New("").Option("missingkey=error").
		Funcs(template.FuncMap{"humanize": same, "humanizeDuration": same, "humanizePercentage": same}).
		Parse("{{$labels := .Labels}}{{$value := .Value}}" + text)
	if err != nil {
		return err
	}
	var out strings.Builder
	if err := read.Execute(&out, map[string]any{"Labels": there, "Value": 1.0}); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "template: "))
	}
	return nil
}
