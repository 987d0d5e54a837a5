package deploytest

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v4"
)

// ruleFile and testFile are what is read of alerts.yml and of a file for promtool test rules; a rule and a series are
// passed on as they are.
type (
	ruleFile struct {
		Groups []ruleGroup `yaml:"groups"`
	}
	ruleGroup struct {
		Name  string           `yaml:"name"`
		Rules []map[string]any `yaml:"rules"`
	}
	testFile struct {
		RuleFiles []string       `yaml:"rule_files"`
		Interval  string         `yaml:"evaluation_interval"`
		Tests     []scriptedTest `yaml:"tests"`
	}
	scriptedTest struct {
		Name     string           `yaml:"name"`
		Interval string           `yaml:"interval"`
		Series   []map[string]any `yaml:"input_series"`
		Alerts   []expectedAlert  `yaml:"alert_rule_test"`
	}
	expectedAlert struct {
		At     string `yaml:"eval_time"`
		Name   string `yaml:"alertname"`
		Firing []any  `yaml:"exp_alerts,omitempty"`
	}
)

// alertFaults has promtool run each alert, and sees to it that each is there quiet and firing.
func alertFaults(t *testing.T, deploy files) (found faults) {
	var rules ruleFile
	decode(t, deploy, "prometheus/alerts.yml", &rules)
	tests := map[string][]testFile{} // by alert: the files, with what is about it alone
	quiet, firing := map[string]bool{}, map[string]bool{}
	for _, name := range deploy.inDir("prometheus", "_test.yml") {
		var file testFile
		decode(t, deploy, name, &file)
		byAlert := map[string][]scriptedTest{}
		for _, test := range file.Tests {
			for _, a := range test.Alerts {
				if len(a.Firing) == 0 {
					quiet[a.Name] = true
				} else {
					firing[a.Name] = true
				}
				one := test
				one.Alerts = []expectedAlert{a}
				byAlert[a.Name] = append(byAlert[a.Name], one)
			}
		}
		for alert, about := range byAlert {
			one := file
			one.Tests = about
			tests[alert] = append(tests[alert], one)
		}
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "alerts.yml"), deploy["prometheus/alerts.yml"])
	found = append(found, runPromtool(t, dir, "check", "rules", "alerts.yml")...)
	for _, group := range rules.Groups {
		for _, r := range group.Rules {
			alert := fmt.Sprint(r["alert"])
			if !quiet[alert] || !firing[alert] {
				found.add("%s: a test has it quiet: %v, and firing: %v", alert, quiet[alert], firing[alert])
			}
			alone := ruleFile{Groups: []ruleGroup{{Name: group.Name, Rules: []map[string]any{r}}}}
			found = append(found, alertRun(t, alone, tests[alert])...)
		}
	}
	return found
}

func decode(t *testing.T, deploy files, name string, into any) {
	t.Helper()
	from := yaml.NewDecoder(strings.NewReader(deploy[name]))
	from.KnownFields(true) // what is not read is not tested either
	if err := from.Decode(into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// alertRuns is what promtool said before, by an alert and its tests: an alert depends on no other. So a change of one
// has promtool run that one.
var alertRuns sync.Map

func alertRun(t *testing.T, rules ruleFile, tests []testFile) faults {
	files := map[string]any{"alerts.yml": rules}
	args := []string{"test", "rules"}
	for i, test := range tests {
		name := fmt.Sprintf("%d_test.yml", i)
		files[name], args = test, append(args, name)
	}
	dir, texts := t.TempDir(), []string{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text, err := yaml.Marshal(files[name])
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), string(text))
		texts = append(texts, string(text))
	}
	key := strings.Join(texts, "\n---\n")
	if said, ok := alertRuns.Load(key); ok {
		return said.(faults)
	}
	if len(tests) == 0 {
		return nil
	}
	said := runPromtool(t, dir, args...)
	alertRuns.Store(key, said)
	return said
}

func runPromtool(t *testing.T, dir string, args ...string) (found faults) {
	run := exec.CommandContext(t.Context(), promtool(t), args...)
	run.Dir = dir
	if out, err := run.CombinedOutput(); err != nil {
		found.add("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
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
		t.Fatalf(
			"the alerts are tested by promtool, which comes with Prometheus: %v; scripts/promtool.sh installs it, or set "+
				"PENSTOCK_PROMTOOL",
			err,
		)
	}
	return tool
}
