package deploytest

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// alertTests is what is read of a file for promtool test rules.
type alertTests struct {
	RuleFiles []string `yaml:"rule_files"`
	Tests     []struct {
		Name string
		Runs []struct {
			Alertname string
			ExpAlerts []any `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
	}
}

// alertFaults has promtool itself run each alert, and sees to it that each is there quiet and firing.
func alertFaults(t *testing.T, deploy files) (found faults) {
	var all alerting
	if err := yaml.Unmarshal([]byte(deploy["prometheus/alerts.yml"]), &all); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "alerts.yml"), deploy["prometheus/alerts.yml"])
	quiet, firing := map[string]bool{}, map[string]bool{}
	var tests []string
	for _, name := range deploy.inDir("prometheus", "_test.yml") {
		var a alertTests
		if err := yaml.Unmarshal([]byte(deploy[name]), &a); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, test := range a.Tests {
			for _, run := range test.Runs {
				if len(run.ExpAlerts) == 0 {
					quiet[run.Alertname] = true
				} else {
					firing[run.Alertname] = true
				}
			}
		}
		file := path.Base(name)
		write(t, filepath.Join(dir, file), deploy[name])
		tests = append(tests, file)
	}
	for _, group := range all.Groups {
		for _, r := range group.Rules {
			if !quiet[r.Alert] || !firing[r.Alert] {
				found.add("%s: a test has it quiet: %v, and firing: %v", r.Alert, quiet[r.Alert], firing[r.Alert])
			}
		}
	}
	tool := promtool(t)
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, append([]string{"test", "rules"}, tests...)} {
		run := exec.CommandContext(t.Context(), tool, args...)
		run.Dir = dir
		if out, err := run.CombinedOutput(); err != nil {
			found.add("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	return found
}

// promtool is where it is; a test that needs it fails without.
func promtool(t *testing.T) string {
	t.Helper()
	name := os.Getenv("PENSTOCK_PROMTOOL")
	if name == "" {
		name = "promtool"
	}
	tool, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("the alerts are tested by promtool, which comes with Prometheus: %v; scripts/promtool.sh installs it, or set PENSTOCK_PROMTOOL", err)
	}
	return tool
}
