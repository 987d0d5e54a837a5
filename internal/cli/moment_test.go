package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Flags take all forms of moments, and the zone is shown.
func TestMomentsOnTheCommandLine(t *testing.T) {
	kept(t, 1, 1)
	zone := time.Now().Format("(-07:00)")
	expect(t, ExitDone, "paused until", zone, "queue", "pause", "email", "--until", "tomorrow 07:00")
	expect(t, ExitDone, "paused until", " UTC (+00:00)", "queue", "pause", "email", "--until", "07:00 UTC")
	expect(t, ExitDone, "421 busy", "--since yesterday 00:00 is ", "dead", "ls", "email", "--since", "yesterday 00:00")
	expect(
		t, ExitDone, "no matching jobs", "--before yesterday 00:00 is ", "dead", "ls", "email", "--before", "yesterday 00:00",
	)
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte("rules:\n  - {name: otp, algorithm: meter, rate: 1/s}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, ExitDone, "", "", "rule", "apply", "-f", rules)
	for _, kind := range []string{"queue", "rule"} {
		name := map[string]string{"queue": "email", "rule": "otp"}[kind]
		expect(t, ExitDone, "created", "--since yesterday 00:00 is ", kind, "log", name, "--since", "yesterday 00:00")
		r := expect(t, ExitDone, "", "--until yesterday 00:00 is ", kind, "log", name, "--until", "yesterday 00:00")
		if strings.Contains(r.out, "created") {
			t.Errorf("%s log until yesterday tells of today:\n%s", kind, r.out)
		}
		expect(t, ExitDone, "created", "", kind, "log", name, "--since", "2h", "-o", "json")
		r = expect(t, ExitDone, "", "", kind, "log", name, "--until", "2h")
		if strings.Contains(r.out, "created") {
			t.Errorf("%s log until two hours ago tells of now:\n%s", kind, r.out)
		}
	}
	for _, args := range [][]string{
		{"queue", "pause", "email", "--until", "soon"},
		{"dead", "ls", "email", "--since", "soon"},
		{"queue", "log", "email", "--since", "soon"},
		{"rule", "log", "otp", "--until", "soon"},
		{"push", "email", "-f", "../../examples/messages.csv", "--not-before", "soon"},
	} {
		expect(t, ExitUsage, "", "tomorrow 07:00", args...)
	}
	r := penstock(t, `{"payload": 1, "id": "n"}`+"\n", "push", "email", "-f", "-", "--not-before", "tomorrow 07:00")
	if r.code != ExitDone || !strings.Contains(r.err, "--not-before tomorrow 07:00 is ") ||
		!strings.Contains(r.err, zone) {
		t.Errorf("%+v", r)
	}
	expect(t, ExitDone, "T07:00:00", "", "job", "get", "email", "n")
}

// All flags take the same forms: none is a time.Time, which allows only RFC 3339.
func TestAllTimesAreMoments(t *testing.T) {
	var walk func(of reflect.Type, path string)
	walk = func(of reflect.Type, path string) {
		for f := range of.Fields() {
			switch kind := f.Type; {
			case !f.IsExported() && !f.Anonymous:
			case kind == reflect.TypeFor[time.Time](), kind == reflect.TypeFor[*time.Time]():
				t.Errorf("%s.%s is a time.Time: make it a moment", path, f.Name)
			case kind.Kind() == reflect.Struct:
				walk(kind, path+"."+f.Name)
			}
		}
	}
	walk(reflect.TypeFor[root](), "root")
}
