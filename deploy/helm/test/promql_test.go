package test

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

// What the scalers read: the busy handlers of each drainer, 0 for an idle one, and nothing of other installations.
func TestBusyHandlers(t *testing.T) {
	recorded := install(t, "values/hpa.yaml").find(t, "PrometheusRule", "penstock-autoscaling").typed
	rules, err := yaml.Marshal(recorded.(*monitoringv1.PrometheusRule).Spec)
	if err != nil {
		t.Fatal(err)
	}
	query := install(t, "values/keda.yaml").find(t, "ScaledObject", "penstock-drainer").typed.(*scaledObject).
		Spec.Triggers[0].Metadata["query"]
	busy, idle := `pod="penstock-drainer-a"`, `pod="penstock-drainer-b"`
	tests := fmt.Sprintf(`
rule_files: [rules.yml]
evaluation_interval: 15s
tests:
  - interval: 15s
    input_series:
      - {series: 'penstock_handlers_in_use{namespace="queues",%[1]s,queue="email"}', values: '30x8'}
      - {series: 'penstock_handlers_in_use{namespace="queues",%[1]s,queue="sms"}', values: '12x8'}
      - {series: 'penstock_handlers_in_use{namespace="queues",pod="other-drainer-a",queue="sms"}', values: '99x8'}
      - {series: 'penstock_handlers_in_use{namespace="staging",%[1]s,queue="email"}', values: '99x8'}
      - {series: 'penstock_free_handlers{namespace="queues",%[1]s}', values: '214x8'}
      - {series: 'penstock_free_handlers{namespace="queues",%[2]s}', values: '256x8'}
    promql_expr_test:
      - expr: penstock_drainer_busy_handlers
        eval_time: 1m
        exp_samples:
          - {labels: 'penstock_drainer_busy_handlers{namespace="queues",%[1]s}', value: 42}
          - {labels: 'penstock_drainer_busy_handlers{namespace="queues",%[2]s}', value: 0}
      - {expr: '%[3]s', eval_time: 1m, exp_samples: [{labels: '{}', value: 42}]}
  - interval: 15s
    input_series:
      - {series: 'penstock_free_handlers{namespace="queues",%[2]s}', values: '256x8'}
    promql_expr_test:
      - {expr: '%[3]s', eval_time: 1m, exp_samples: [{labels: '{}', value: 0}]}
`, busy, idle, query)
	dir := t.TempDir()
	for name, text := range map[string]string{"rules.yml": string(rules), "tests.yml": tests} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	promtool := cmp.Or(os.Getenv("PENSTOCK_PROMTOOL"), "promtool")
	run := exec.CommandContext(t.Context(), promtool, "test", "rules", "tests.yml")
	run.Dir = dir
	if out, err := run.CombinedOutput(); err != nil {
		t.Errorf("%s test rules: %v; install Prometheus, or set PENSTOCK_PROMTOOL\n%s", promtool, err, out)
	}
}
