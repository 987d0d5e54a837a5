package assign

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/penstock/penstock/queue/invalid"
)

func TestTo(t *testing.T) {
	const spec = `{"rate":"14/s","burst":1,"limits":[{"quota":"5/d"}],"lanes":{"overrides":{"a.b":{"rate":"1/s"}}},` +
		`"deliver":{"http":{"url":"https://x"}}}`
	for _, tt := range []struct {
		settings string // separated by spaces
		want     string // empty for an error
		field    string // in the error
	}{
		{"rate=5/s", `"rate":"5/s"`, ""},
		{"burst=", `"deliver":{"http":{"url":"https://x"}},"lanes"`, ""},
		{"burst=2 burst=3", `"burst":3`, ""},
		{"deferred.low_water=.5", `"low_water":0.5`, ""},
		{"pull=true", `"pull":true`, ""},
		{"limits.1.rate=3/m", `[{"quota":"5/d"},{"rate":"3/m"}]`, ""},
		{"limits.0=", `"limits":[]`, ""},
		{"lanes.rate=2/s", `"rate":"2/s"}`, ""},
		{"lanes.overrides.a.b.rate=2/s", `"overrides":{"a.b":{"rate":"2/s"}}`, ""},
		{"lanes.overrides.a.b=", `"overrides":{}`, ""},
		{"deliver.http.headers.x=12", `"headers":{"x":12}`, ""},
		{"lanes.overrides.a.c=", "", "lanes.overrides.a.c"},
		{"limits.7.rate=1/s", "", "limits.7.rate"},
		{"limits.x.rate=1/s", "", "limits.x.rate"},
		{"rate.x=1", "", "rate.x"},
		{"rate", "", ""},
		{"=1", "", ""},
		{"", "", ""},
		{strings.Repeat("a.", 100) + "b=1", "", ""},
	} {
		var before map[string]any
		if err := json.Unmarshal([]byte(spec), &before); err != nil {
			t.Fatal(err)
		}
		got, err := To(before, strings.Split(tt.settings, " "))
		text, _ := json.Marshal(got)
		var field *invalid.Error
		switch {
		case tt.want != "" && (err != nil || !strings.Contains(string(text), tt.want)):
			t.Errorf("%s: %s, %v; want %s", tt.settings, text, err, tt.want)
		case tt.want == "" && (err == nil || len(err.Error()) > 200):
			t.Errorf("%s: %s, %v", tt.settings, text, err)
		case tt.field != "" && (!errors.As(err, &field) || field.Field != tt.field):
			t.Errorf("%s: %v does not name %s", tt.settings, err, tt.field)
		}
		if after, _ := json.Marshal(before); string(after) != compact(t, spec) {
			t.Errorf("%s changed its input to %s", tt.settings, after)
		}
	}
}

func compact(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
