package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestMoments(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 10, 24, 9, 30, 0, 0, berlin) // the clocks are set back in the night
	for _, c := range []struct {
		text string
		way  int
		want string
		open bool
	}{
		{"2026-12-24T07:00:00+01:00", 1, "2026-12-24T07:00:00+01:00", false},
		{"2h", 1, "2026-10-24T11:30:00+02:00", false},
		{"2h", -1, "2026-10-24T07:30:00+02:00", false},
		{"07:00", 1, "2026-10-25T07:00:00+01:00", true},
		{"07:00", -1, "2026-10-24T07:00:00+02:00", true},
		{"10:00", 1, "2026-10-24T10:00:00+02:00", true},
		{"10:00", -1, "2026-10-23T10:00:00+02:00", true},
		{"09:30", 1, "2026-10-25T09:30:00+01:00", true},
		{"09:30", -1, "2026-10-24T09:30:00+02:00", true},
		{"today 07:00", 1, "2026-10-24T07:00:00+02:00", true},
		{"tomorrow 07:00", 1, "2026-10-25T07:00:00+01:00", true},
		{"tomorrow 07:00:30", 1, "2026-10-25T07:00:30+01:00", true},
		{"yesterday 07:00", -1, "2026-10-23T07:00:00+02:00", true},
		{"2026-12-24 07:00", 1, "2026-12-24T07:00:00+01:00", true},
		{"2026-12-24 07:00 UTC", 1, "2026-12-24T07:00:00Z", true},
		{"07:00 America/New_York", 1, "2026-10-24T07:00:00-04:00", true},
	} {
		at, open, err := readMoment(c.text, now, c.way)
		if err != nil || at.Format(time.RFC3339) != c.want || open != c.open {
			t.Errorf("%s is read as %s, %v, %v; want %s, %v", c.text, at.Format(time.RFC3339), open, err, c.want, c.open)
		}
	}
	for _, text := range []string{
		"", "7", "25:00", "soon", "tomorrow", "07:00 tomorrow", "-2h", "2026-12-24", "2026-13-24 07:00",
		"07:00 Europe/Nowhere", "2026-12-24T07:00:00", "a b c",
	} {
		if at, _, err := readMoment(text, now, 1); err == nil {
			t.Errorf("%q is read as %v", text, at)
		}
	}
}

// Where times are asked for, people's forms are taken, and the zone is said.
func TestMomentsOnTheCommandLine(t *testing.T) {
	kept(t, 1, 1)
	zone := time.Now().Format("(-07:00)")
	expect(t, ExitDone, "paused until", zone, "queue", "pause", "email", "--until", "tomorrow 07:00")
	expect(t, ExitDone, "paused until", " UTC (+00:00)", "queue", "pause", "email", "--until", "07:00 UTC")
	expect(t, ExitDone, "421 busy", "--since yesterday 00:00 is ", "dead", "ls", "email", "--since", "yesterday 00:00")
	expect(
		t, ExitDone, "no such jobs", "--before yesterday 00:00 is ", "dead", "ls", "email", "--before", "yesterday 00:00",
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

// No flag takes times in fewer forms than the others do: none is a time.Time, which is read as RFC 3339 only.
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
