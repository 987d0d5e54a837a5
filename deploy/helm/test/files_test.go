package test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// copies returns the files of deploy/ that the chart has copies of, by their paths in the chart. Helm reads no files
// outside the chart.
func copies(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{
		"files/alerts.yml":    "prometheus/alerts.yml",
		"files/recording.yml": "prometheus/recording.yml",
	}
	dashboards, err := filepath.Glob(filepath.Join(deployDir, "grafana", "*.json"))
	if err != nil || len(dashboards) == 0 {
		t.Fatalf("dashboards: %v, %v", dashboards, err)
	}
	for _, file := range dashboards {
		base := filepath.Base(file)
		all["files/dashboards/"+base] = "grafana/" + base
	}
	return all
}

// The chart's files are those of deploy/, and there are no others.
func TestCopiesAreCurrent(t *testing.T) {
	want := map[string]string{}
	for to, from := range copies(t) {
		b, err := os.ReadFile(filepath.Join(deployDir, from))
		if err != nil {
			t.Fatal(err)
		}
		want[to] = string(b)
	}
	current(t, filepath.Join(chartDir, "files"), chartDir, want)
}

// manifests are the plain manifests: values of the chart, and the objects that belong to a file.
var manifests = map[string]struct {
	about, values string
	has           func(o *object) bool
}{
	"penstock.yaml": {
		"Two ingresses and two drainers, on the Redis whose URL is in the Secret penstock-redis.", "{}",
		func(o *object) bool { return o.hook == "" },
	},
	"init.yaml": {
		"Creates the store. Apply it once, before penstock.yaml: a flushed Redis looks empty too.", "{}",
		func(o *object) bool { return o.hook != "" },
	},
	"up.yaml": {
		"Instead of penstock.yaml: one process, with its jobs on a volume.", "mode: up",
		func(*object) bool { return true },
	},
	"monitoring.yaml": {
		"For the Prometheus operator: scrapes of penstock.yaml, recorded series and alerts.",
		"monitoring: {serviceMonitor: {enabled: true}, prometheusRule: {enabled: true}}",
		func(o *object) bool { return o.kind == "ServiceMonitor" || o.kind == "PrometheusRule" },
	},
}

// The plain manifests are what the chart renders, without what only Helm reads.
func TestManifestsAreCurrent(t *testing.T) {
	dir := filepath.Join(deployDir, "kubernetes")
	want := map[string]string{}
	for name, m := range manifests {
		var values map[string]any
		if err := yaml.UnmarshalStrict([]byte(m.values), &values); err != nil {
			t.Fatal(err)
		}
		files, err := templateIn("penstock", values, "penstock")
		if err != nil {
			t.Fatal(err)
		}
		text := "# " + m.about + "\n# Rendered from ../helm/penstock by go generate in ../helm/test. Do not edit it.\n"
		for _, doc := range documents(files) {
			o, err := decode(doc)
			if err != nil {
				t.Fatal(err)
			}
			if m.has(&o) {
				text += "---\n" + plain(t, doc)
			}
		}
		want[name] = text
	}
	current(t, dir, dir, want)
}

// plain returns an object without Helm's labels and annotations.
func plain(t *testing.T, doc string) string {
	t.Helper()
	var o map[string]any
	if err := yaml.UnmarshalStrict([]byte(doc), &o); err != nil {
		t.Fatal(err)
	}
	var strip func(value any)
	strip = func(value any) {
		inner, is := value.(map[string]any)
		if !is {
			return
		}
		for key, of := range inner {
			if named, is := of.(map[string]any); is && (key == "labels" || key == "annotations") {
				delete(named, "app.kubernetes.io/managed-by")
				for name := range named {
					if strings.HasPrefix(name, "helm.sh/") {
						delete(named, name)
					}
				}
				if len(named) == 0 {
					delete(inner, key)
				}
			}
			strip(of)
		}
	}
	strip(o)
	b, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// current compares all files below dir with those wanted, by their paths below base. With -update it writes them.
func current(t *testing.T, dir, base string, want map[string]string) {
	t.Helper()
	if *update {
		for name, text := range want {
			path := filepath.Join(base, name)
			if err := errors.Join(
				os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644),
			); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, fault := range stale(dir, base, want) {
		t.Error(fault)
	}
}

// stale returns the files below dir that are not as wanted.
func stale(dir, base string, want map[string]string) (found faults) {
	for name, text := range want {
		path := filepath.Join(base, name)
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			found.add("%s is stale: run go generate in deploy/helm/test; %v", path, err)
		}
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(base, path)
		if _, known := want[filepath.ToSlash(name)]; !known || err != nil {
			found.add("%s is generated from nothing: remove it; %v", path, err)
		}
		return nil
	})
	if err != nil {
		found.add("%s: %v", dir, err)
	}
	return found
}

// Changed, missing and surplus files are found.
func TestStaleFilesAreFound(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"same": "a", "other": "b"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for says, want := range map[string]map[string]string{
		"other is stale":                  {"same": "a", "other": "x"},
		"other is generated from nothing": {"same": "a"},
		"missing is stale":                {"same": "a", "other": "b", "missing": "c"},
	} {
		if found := stale(dir, dir, want); len(found) != 1 || !strings.Contains(found[0], says) {
			t.Errorf("want %q, got %q", says, found)
		}
	}
	if found := stale(dir, dir, map[string]string{"same": "a", "other": "b"}); len(found) > 0 {
		t.Errorf("current files are stale: %q", found)
	}
}
