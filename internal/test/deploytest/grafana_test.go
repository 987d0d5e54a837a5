package deploytest

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// dashboard is what is read of a file in deploy/grafana.
type dashboard struct {
	UID, Title string
	Templating struct {
		List []struct{ Name, Type, Definition, Regex string }
	}
	Annotations struct {
		List []struct{ Name, Expr, TextFormat string }
	}
	Panels []panel
}

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []struct{ Expr, LegendFormat string }
}

// recorded are the rules of recording.yml.
func recorded(deploy files) (rules []struct{ Record, Expr string }, err error) {
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct{ Record, Expr string }
		}
	}
	err = yaml.Load([]byte(deploy["prometheus/recording.yml"]), &file, yaml.WithKnownFields())
	for _, group := range file.Groups {
		rules = append(rules, group.Rules...)
	}
	return rules, err
}

var recordedName = regexp.MustCompile(`^([a-z_]+):[a-z_]+:[a-z0-9]+$`)

// What is recorded is of metrics that there are, named after what it is by, and wanted by more than one panel.
func recordingFaults(t *testing.T, deploy files) (found faults) {
	rules, err := recorded(deploy)
	if err != nil {
		found.add("recording.yml: %v", err)
		return found
	}
	dir := t.TempDir()
	write(t, path.Join(dir, "recording.yml"), deploy["prometheus/recording.yml"])
	found = append(found, runPromtool(t, dir, "check", "rules", "--lint-fatal", "recording.yml")...)
	expressions := make([]string, len(rules))
	for i, r := range rules {
		expressions[i] = r.Expr
	}
	read, err := readExpressions(t, expressions)
	if err != nil {
		found.add("recording.yml: %v", err)
		return found
	}
	known := metrics(t)
	var shown []string
	for _, name := range deploy.inDir("grafana", ".json") {
		for _, p := range readDashboard(t, deploy[name]).Panels {
			for _, target := range p.Targets {
				shown = append(shown, target.Expr)
			}
		}
	}
	for i, r := range rules {
		for _, fault := range read[i].faults(known, &scraping{}) {
			found.add("%s: %s", r.Record, fault)
		}
		if m := recordedName.FindStringSubmatch(r.Record); m == nil || m[1] != strings.Join(read[i].By, "_") {
			found.add("%s is by %v: want LEVEL:METRIC:OPERATIONS with that level", r.Record, read[i].By)
		}
		wanted := 0
		for _, expr := range shown {
			if strings.Contains(expr, r.Record) {
				wanted++
			}
			if strings.Contains(expr, r.Expr) {
				found.add("%s is written out: %s", r.Record, expr)
			}
		}
		if wanted < 2 {
			found.add("%s is asked for by %d panels: record what several ask for", r.Record, wanted)
		}
	}
	return found
}

var variableInQuery = regexp.MustCompile(`\$\w+`)

// asPrometheus puts values in place of the variables in a query, as Grafana does when everything is chosen.
func asPrometheus(expr, interval, chosen string) string {
	expr = strings.ReplaceAll(expr, "$__rate_interval", interval)
	return variableInQuery.ReplaceAllString(expr, chosen)
}

func readDashboard(t *testing.T, text string) (d dashboard) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// A panel asks for metrics that there are, by labels that they have, and says in a sentence what it shows.
func grafanaFaults(t *testing.T, deploy files) (found faults) {
	var s scraping
	if err := yaml.Load([]byte(deploy["prometheus/prometheus.yml"]), &s, yaml.WithKnownFields()); err != nil {
		found.add("prometheus.yml: %v", err)
		return found
	}
	known := metrics(t)
	rules, err := recorded(deploy)
	if err != nil {
		found.add("recording.yml: %v", err)
		return found
	}
	for _, r := range rules {
		if read, err := readExpressions(t, []string{r.Expr}); err == nil && len(read[0].Selectors) == 1 {
			known[r.Record] = metric{r.Record, known[read[0].Selectors[0].Metric].about, read[0].By}
		}
	}
	names := deploy.inDir("grafana", ".json")
	if len(names) != 6 {
		found.add("%d dashboards, want 6", len(names))
	}
	seen, asked := map[string]string{}, map[string]string{}
	for _, name := range names {
		d := readDashboard(t, deploy[name])
		if want := "penstock-" + strings.TrimSuffix(path.Base(name), ".json"); d.UID != want || d.Title == "" ||
			seen[d.Title] != "" {
			found.add("%s: its uid is %q, want %q; its title is %q", name, d.UID, want, d.Title)
		}
		seen[d.Title] = name
		found = append(found, d.faults(t, name, known, &s)...)
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				at := name + ", " + p.Title
				if first := asked[target.Expr]; first != "" && !strings.Contains(target.Expr, ":") {
					found.add("%s asks what %s asks; record it: %s", at, first, target.Expr)
				}
				asked[target.Expr] = at
			}
		}
	}
	return found
}

func (d *dashboard) faults(t *testing.T, name string, known map[string]metric, s *scraping) (found faults) {
	variables := []string{"$__rate_interval"}
	for _, v := range d.Templating.List {
		variables = append(variables, "$"+v.Name)
		if v.Type != "query" {
			continue
		}
		from := regexp.MustCompile(`^label_values\((\w+)(?:{.*})?, (\w+)\)$`).FindStringSubmatch(v.Definition)
		if from == nil || from[2] != v.Name && v.Regex == "" || !slices.Contains(known[from[1]].labels, from[2]) {
			found.add("%s: nothing is chosen by %s", name, v.Definition)
		}
	}
	if len(variables) < 2 || variables[1] != "$datasource" {
		found.add("%s: its first variable is not the data source", name)
	}
	taken := map[[2]int]string{}
	ids := map[int]bool{}
	for _, p := range d.Panels {
		say := func(format string, args ...any) { found.add(name+", "+p.Title+": "+format, args...) }
		if ids[p.ID] || p.ID == 0 {
			say("there is another panel %d", p.ID)
		}
		ids[p.ID] = true
		at := p.GridPos
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				if other := taken[[2]int{x, y}]; x >= 24 || other != "" {
					say("it lies on %q, or sticks out", other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if !strings.HasSuffix(p.Description, ".") || strings.Contains(p.Description, ". ") {
			say("its description is not a sentence: %q", p.Description)
		}
		if p.Title == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
			say("it has no title, no unit %q or no query", p.FieldConfig.Defaults.Unit)
		}
		for _, target := range p.Targets {
			for _, v := range variableInQuery.FindAllString(target.Expr, -1) {
				if !slices.Contains(variables, v) {
					say("%s cannot be chosen", v)
				}
			}
			// Of all queues: what is chosen is a value, and no expression over those of docs/metrics.md.
			read, err := readExpressions(t, []string{asPrometheus(target.Expr, "5m", "_other")})
			if err != nil {
				say("%v", err)
				continue
			}
			for _, fault := range read[0].faults(known, s) {
				say("%s", fault)
			}
			kept := read[0].keeps(known)
			for _, label := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				if !slices.Contains(kept, label[1]) {
					say("its legend has {{%s}}, which its series do not have", label[1])
				}
			}
			if target.LegendFormat == "" && p.Type != "table" {
				say("its series have no legend")
			}
		}
	}
	if len(d.Annotations.List) == 0 {
		found.add("%s marks nothing", name)
	}
	for _, mark := range d.Annotations.List {
		for _, v := range variableInQuery.FindAllString(mark.Expr, -1) {
			if !slices.Contains(variables, v) {
				found.add("%s, %s: %s cannot be chosen", name, mark.Name, v)
			}
		}
		read, err := readExpressions(t, []string{asPrometheus(mark.Expr, "5m", "_other")})
		if err != nil {
			found.add("%s, %s: %v", name, mark.Name, err)
			continue
		}
		for _, fault := range read[0].faults(known, s) {
			found.add("%s, %s: %s", name, mark.Name, fault)
		}
		for _, label := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(mark.TextFormat, -1) {
			if !slices.Contains(read[0].keeps(known), label[1]) {
				found.add("%s, %s: its text has {{%s}}, which its series do not have", name, mark.Name, label[1])
			}
		}
	}
	if width := len(taken); width%24 != 0 {
		found.add("%s: its rows are not 24 wide", name)
	}
	return found
}
