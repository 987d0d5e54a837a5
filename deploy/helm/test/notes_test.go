package test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/cli"
)

var commandInNotes = regexp.MustCompile(`(?m)(?:^ *| -- )penstock( .*)$`)

// Helm prints commands that exist, for objects that exist.
func TestNotes(t *testing.T) {
	for file, want := range map[string][]string{
		"defaults":   {"exec deploy/penstock-ingress -- penstock token init", "service/penstock-ingress 8080:80"},
		"up":         {"exec penstock-up-0 -- penstock -s unix:///data/penstock/penstock.sock", "set apply.tokenSecret.name"},
		"everything": {"get secret penstock-token", `index .data "admin" | base64decode`, "--server https://localhost:8080"},
		"hpa":        {"penstock login"},
	} {
		values, _ := valuesOf(t, "values/"+file+".yaml")
		files, err := template(values, "penstock")
		if err != nil {
			t.Fatal(err)
		}
		notes := files["penstock/templates/NOTES.txt"]
		for _, text := range want {
			if !strings.Contains(notes, text) {
				t.Errorf("%s: the notes do not say %q:\n%s", file, text, notes)
			}
		}
		commands := commandInNotes.FindAllStringSubmatch(notes, -1)
		if len(commands) == 0 {
			t.Errorf("%s: the notes have no command", file)
		}
		for _, m := range commands {
			var out, said bytes.Buffer
			if code := cli.Run(t.Context(), append(strings.Fields(m[1]), "--help"), cli.Streams{
				In: strings.NewReader(""), Out: &out, Err: &said,
			}); code != cli.ExitDone {
				t.Errorf("%s: penstock%s: %s", file, m[1], said.String())
			}
		}
	}
}
