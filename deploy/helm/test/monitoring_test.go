package test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// monitoringFaults checks that each serving pod is scraped with the job name of the alerts, and that rules and
// dashboards are those of deploy/.
func monitoringFaults(t *testing.T, r *release) (found faults) {
	scraped := map[string]bool{}
	for _, m := range of[*monitoringv1.ServiceMonitor](r) {
		end := m.Spec.Endpoints[0]
		for _, s := range of[*corev1.Service](r) {
			if !labels.SelectorFromSet(m.Spec.Selector.MatchLabels).Matches(labels.Set(s.Labels)) {
				continue
			}
			if !slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == end.Port }) {
				found.add("%s: the Service %s has no port %s", m.Name, s.Name, end.Port)
			}
			for _, p := range r.selected(s.Spec.Selector) {
				scraped[p.component()] = true
				job := end.RelabelConfigs[0]
				if job.TargetLabel != "job" || job.Replacement == nil || *job.Replacement != "penstock-"+p.component() {
					found.add("%s: the alerts do not know its job", m.Name)
				}
				tls := option(p.spec.Containers[0].Args, "--tls-cert") != ""
				if https := end.Scheme != nil && strings.EqualFold(string(*end.Scheme), "https"); https != tls {
					found.add("%s: it is scraped with the scheme %v", m.Name, end.Scheme)
				}
			}
		}
	}
	for _, p := range r.pods() {
		if len(scraped) > 0 && p.owner.kind != "Job" && !scraped[p.component()] {
			found.add("%s: nothing scrapes it", p.owner)
		}
	}
	for _, rule := range of[*monitoringv1.PrometheusRule](r) {
		file := strings.TrimPrefix(rule.Name[strings.LastIndex(rule.Name, "-"):], "-") + ".yml"
		if file == "autoscaling.yml" {
			continue
		}
		b, err := os.ReadFile(filepath.Join(deployDir, "prometheus", file))
		if err != nil {
			t.Fatal(err)
		}
		var want monitoringv1.PrometheusRuleSpec
		if err := yaml.UnmarshalStrict(b, &want); err != nil {
			t.Fatal(err)
		}
		got, err1 := yaml.Marshal(rule.Spec)
		wanted, err2 := yaml.Marshal(want)
		if err1 != nil || err2 != nil || string(got) != string(wanted) || len(want.Groups) == 0 {
			found.add("%s: its rules are not those of deploy/prometheus/%s", rule.Name, file)
		}
	}
	return append(found, dashboardFaults(t, r)...)
}

func dashboardFaults(t *testing.T, r *release) (found faults) {
	shown := map[string]string{}
	for _, m := range of[*corev1.ConfigMap](r) {
		if m.Labels["grafana_dashboard"] == "1" {
			for name, text := range m.Data {
				shown[strings.TrimPrefix(name, "penstock-")] = text
			}
		}
	}
	if len(shown) == 0 {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(deployDir, "grafana", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(shown) {
		found.add("there are %d dashboards, want %d", len(shown), len(files))
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := shown[filepath.Base(file)]; strings.TrimSpace(got) != strings.TrimSpace(string(b)) {
			found.add("the dashboard %s is not that of deploy/grafana", filepath.Base(file))
		}
	}
	return found
}

var (
	metricName  = regexp.MustCompile(`\bpenstock_[a-z_]+`)
	depthMetric = regexp.MustCompile(`penstock_(jobs|queue_bytes|oldest_waiting_seconds|queue_drain_seconds|lanes)\b`)
)

// scalingFaults checks that drainers are scaled by busy handlers, and that nothing else sets their number.
func scalingFaults(t *testing.T, r *release) (found faults) {
	metrics, err := os.ReadFile(filepath.Join(deployDir, "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	recorded := ""
	for _, rule := range of[*monitoringv1.PrometheusRule](r) {
		for _, g := range rule.Spec.Groups {
			if strings.HasSuffix(rule.Name, "-autoscaling") {
				recorded += g.Rules[0].Record + " " + g.Rules[0].Expr.StrVal
			}
		}
	}
	queries, target, most := []string{}, "", int32(0)
	for _, h := range of[*autoscalingv2.HorizontalPodAutoscaler](r) {
		m := h.Spec.Metrics[0].Pods
		if recorded != "" && !strings.HasPrefix(recorded, m.Metric.Name+" ") {
			found.add("%s: nothing records %s", h.Name, m.Metric.Name)
		}
		queries, target, most = append(queries, recorded), h.Spec.ScaleTargetRef.Name, h.Spec.MaxReplicas
		if *h.Spec.MinReplicas < 2 {
			found.add("%s: it leaves %d drainers", h.Name, *h.Spec.MinReplicas)
		}
		found = append(found, thresholdFaults(r, h.Name, m.Target.AverageValue.Value())...)
	}
	for _, s := range of[*scaledObject](r) {
		trigger := s.Spec.Triggers[0]
		queries = append(queries, trigger.Metadata["query"])
		target, most = s.Spec.ScaleTargetRef.Name, *s.Spec.MaxReplicaCount
		if *s.Spec.MinReplicaCount < 2 {
			found.add("%s: it leaves %d drainers", s.Name, *s.Spec.MinReplicaCount)
		}
		threshold := resource.MustParse(trigger.Metadata["threshold"])
		found = append(found, thresholdFaults(r, s.Name, threshold.Value())...)
	}
	for _, q := range queries {
		if depthMetric.MatchString(q) {
			found.add("drainers are scaled by depth: %s", q)
		}
		if q != "" && !strings.Contains(q, "penstock_handlers_in_use") {
			found.add("drainers are not scaled by busy handlers: %s", q)
		}
		for _, name := range metricName.FindAllString(strings.TrimPrefix(q, "penstock_drainer_busy_handlers "), -1) {
			if !strings.Contains(string(metrics), "`"+name+"`") {
				found.add("docs/metrics.md does not know %s", name)
			}
		}
	}
	for _, d := range of[*appsv1.Deployment](r) {
		if (d.Name == target) != (d.Spec.Replicas == nil) {
			found.add("%s: its replicas are %v, and %q is scaled to at most %d", d.Name, d.Spec.Replicas, target, most)
		}
	}
	return found
}

// thresholdFaults checks that the number of busy handlers above which drainers are added can be reached by one queue.
func thresholdFaults(r *release, name string, threshold int64) (found faults) {
	for _, p := range r.pods() {
		if p.component() != "drainer" {
			continue
		}
		most := resource.MustParse(option(p.spec.Containers[0].Args, "--concurrency"))
		if threshold < 1 || threshold > most.Value() {
			found.add("%s: it waits for %d busy handlers, and one queue has at most %d", name, threshold, most.Value())
		}
	}
	return found
}
