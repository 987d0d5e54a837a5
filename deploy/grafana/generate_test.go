package grafana

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

//go:generate go test -run ^TestDashboardsAreCurrent$ . -args -update

var update = flag.Bool("update", false, "write the dashboards")

// The JSON files match the dashboards in Go, and there are no other files.
func TestDashboardsAreCurrent(t *testing.T) {
	var names []string
	for _, d := range All {
		name := d.Name + ".json"
		names = append(names, name)
		want, err := d.JSON()
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(name, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != string(want) {
			t.Errorf("%s is stale: run go generate ./deploy/grafana; %v", name, err)
		}
	}
	there, err := filepath.Glob("*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range there {
		if !slices.Contains(names, name) {
			t.Errorf("%s belongs to no dashboard: remove it", name)
		}
	}
}
