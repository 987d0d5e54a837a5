package docs

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

//go:generate go test -vet=off -run ^TestTablesOfSettings$ -update .

var update = flag.Bool("update", false, "write the tables of settings to configuration.md")

var settingsTable = regexp.MustCompile(`(?m)^<!-- settings: (.*) -->\n(?:\|.*\n)*`)

// The tables of settings in configuration.md match package queue and are complete.
func TestTablesOfSettings(t *testing.T) {
	old, err := os.ReadFile("configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, s := range queue.Settings() {
		if s.Type != "object" && s.Name != "limits" && s.Name != "lanes.limits" || s.Name == "lanes.overrides" {
			rows[s.Name] = settingRow(&s)
		}
	}
	delete(rows, "name")
	text := settingsTable.ReplaceAllStringFunc(string(old), func(table string) string {
		names := settingsTable.FindStringSubmatch(table)[1]
		out := "<!-- settings: " + names + " -->\n| field | default | bounds | |\n|---|---|---|---|\n"
		for _, name := range strings.Fields(names) {
			if rows[name] == "" {
				t.Errorf("configuration.md: %s is no setting, or is in two tables", name)
			}
			out += rows[name]
			delete(rows, name)
		}
		return out
	})
	for name := range rows {
		t.Errorf("configuration.md has no table with %s", name)
	}
	switch {
	case text == string(old):
	case !*update:
		t.Error("configuration.md does not follow the table of settings: go generate ./...")
	default:
		if err := os.WriteFile("configuration.md", []byte(text), 0o644); err != nil { //nolint:gosec // for all to read
			t.Fatal(err)
		}
	}
}

// The page of limiters describes every algorithm.
func TestEveryAlgorithmIsExplained(t *testing.T) {
	page, err := os.ReadFile("limiters.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range rules.Algorithms() {
		if row := regexp.MustCompile("(?m)^\\| [^|]*`" + string(a) + "`.*\\| .* \\| .* \\| .* \\|$"); !row.Match(page) {
			t.Errorf("limiters.md has no row of %s in its table of what each promises", a)
		}
	}
}

func settingRow(s *queue.Setting) string {
	initial, bounds, doc := s.Default, "", s.Doc
	if s.Absent != "" {
		initial = s.Absent
	}
	least := s.Min
	if s.Type == "integer" && least == "" {
		least = "1"
	}
	switch {
	case s.Type == "number":
		bounds = "between " + s.Min + " and " + s.Max
	case s.Max != "":
		bounds = thousands(least) + " to " + thousands(s.Max)
	case s.Values != nil:
		bounds = "`" + strings.Join(s.Values, "`, `") + "`"
	}
	if s.Holds != "" {
		doc += " A change applies " + s.Holds + "."
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s |\n", s.Name, thousands(initial), bounds, doc)
}

// thousands formats a number with separators.
func thousands(text string) string {
	if strings.Trim(text, "0123456789") != "" {
		return text
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
