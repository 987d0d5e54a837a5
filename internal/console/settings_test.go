package console

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/penstock/penstock/queue"
)

// Every setting has a field, and saving the unchanged form changes nothing.
func TestSettingsFormRoundTrips(t *testing.T) {
	text := `{
		"name": "mail", "rate": "14/s", "burst": 2, "limits": [{"quota": "50000/d"}], "capacity": 500, "pull": false,
		"lanes": {"rate": "2/s", "overrides": {"a.b": {"rate": "9/s"}}}, "retry": {"max_attempts": 3, "jitter": "none"},
		"deliver": {"http": {"url": "https://a.example/", "headers": {"X": "***"}}}, "future": {"a": [1]}
	}`
	var spec map[string]any
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		t.Fatal(err)
	}
	var v settingsView
	v.fill(leaves(spec))
	form, names := url.Values{}, []string{}
	for _, g := range v.Groups {
		for _, f := range g.Fields {
			form.Set(f.Name, f.Value)
			name, _, _ := strings.Cut(f.Name, ":")
			names = append(names, name)
		}
	}
	for _, f := range v.Kept {
		form.Set(f.Name, f.Value)
	}
	for _, s := range queue.Settings() {
		whole := slices.ContainsFunc(names, func(name string) bool {
			return name == s.Name || strings.HasPrefix(s.Name, name+"[]") || strings.HasPrefix(name, s.Name+".")
		})
		if s.Name != "name" && !whole {
			t.Errorf("the setting %s has no field", s.Name)
		}
	}
	body, err := object(form)
	if err != nil {
		t.Fatal(err)
	}
	var sent map[string]any
	if err := json.Unmarshal(body, &sent); err != nil {
		t.Fatal(err)
	}
	if edits := editsOf(spec, sent); len(edits) > 0 {
		t.Errorf("the form as it is shown changes %v", edits)
	}
	sent["rate"] = "5/s"
	delete(sent, "retry")
	edits := editsOf(spec, sent)
	want := []edit{{"rate", "14/s", "5/s"}, {"retry.jitter", "none", "full"}, {"retry.max_attempts", "3", "8"}}
	if !slices.Equal(edits, want) {
		t.Errorf("the edits are %v, want %v", edits, want)
	}
}
