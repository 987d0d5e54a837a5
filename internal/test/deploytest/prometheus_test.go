package deploytest

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"go.yaml.in/yaml/v4"
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
	"penstock_pull_jobs_total", "penstock_audit_dropped_total", "penstock_queue_delay_seconds",
	"penstock_queue_drain_seconds",
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
	read, err := readExpressions(t, expressions)
	if err != nil {
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
		kept := read[i].keeps(known)
		for _, fault := range read[i].faults(known, s) {
			say("%s", fault)
		}
		for _, text := range r.Annotations {
			if err := annotates(text, kept); err != nil {
				say("%v", err)
			}
		}
	}
	return found
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
