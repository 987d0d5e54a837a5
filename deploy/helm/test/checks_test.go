package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
)

// checks look at a release and never change it.
var checks = map[string]func(*testing.T, *release) faults{
	"names":      nameFaults,
	"security":   securityFaults,
	"rollout":    rolloutFaults,
	"references": referenceFaults,
	"mounts":     mountFaults,
	"services":   serviceFaults,
	"policies":   policyFaults,
	"programs":   programFaults,
	"queues":     queueFaults,
	"memory":     memoryFaults,
	"monitoring": monitoringFaults,
	"scaling":    scalingFaults,
	"hooks":      hookFaults,
}

func TestReleases(t *testing.T) {
	for _, file := range valuesFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			r := install(t, file)
			for name, check := range checks {
				for _, fault := range check(t, r) {
					t.Errorf("%s: %s", name, fault)
				}
			}
		})
	}
}

func TestLint(t *testing.T) {
	for _, file := range valuesFiles(t) {
		values, _ := valuesOf(t, file)
		for _, m := range lint.RunAll(chartDir, values, namespace).Messages {
			// The chart has no icon, as Penstock has none.
			if m.Severity > support.InfoSev || !strings.Contains(m.Err.Error(), "icon is recommended") {
				t.Errorf("%s: %s", file, m.Error())
			}
		}
	}
}

// Together, the files in values/ render every template and every kind of object.
func TestValuesReachEverything(t *testing.T) {
	kinds, reached := map[string]bool{}, map[string]bool{}
	for _, file := range valuesFiles(t) {
		values, _ := valuesOf(t, file)
		files, err := template(values, "penstock")
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for name, text := range files {
			if strings.TrimSpace(text) != "" {
				reached[filepath.Base(name)] = true
			}
		}
		for _, doc := range documents(files) {
			o, err := decode(doc)
			if err != nil {
				t.Fatal(err)
			}
			kinds[o.kind] = true
		}
	}
	for kind := range types {
		if kind = kind[strings.Index(kind, " ")+1:]; !kinds[kind] {
			t.Errorf("no file of values makes a %s", kind)
		}
	}
	templates, err := os.ReadDir(filepath.Join(chartDir, "templates"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range templates {
		if filepath.Ext(f.Name()) != ".tpl" && !reached[f.Name()] {
			t.Errorf("no file of values renders %s", f.Name())
		}
	}
}

// Releases of any name have names of their own, which fit.
func TestReleaseNames(t *testing.T) {
	for release, want := range map[string]string{
		"penstock": "penstock-ingress", "prod": "prod-penstock-ingress", "my-penstock": "my-penstock-ingress",
		strings.Repeat("a", 53): strings.Repeat("a", 40) + "-ingress",
	} {
		files, err := template(map[string]any{}, release)
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(documents(files), ""); !strings.Contains(text, fmt.Sprintf("name: %s\n", want)) {
			t.Errorf("the release %s has no object %s", release, want)
		}
	}
}
