package cli

import (
	"strings"
	"testing"
	"unicode"

	"github.com/penstock/penstock/queue"
)

// Text from others cannot control the terminal or reverse a line, and keeps its meaning in JSON.
func TestTextFromOthersIsEscaped(t *testing.T) {
	store := kept(t, 1, 0)
	evil := "invoice\u202egpj.exe\u009b2J\x1b[2J\u200b"
	if _, err := store.Append(t.Context(), []queue.Job{{
		Queue: "email", ID: "w", Lane: evil, Payload: []byte(`"` + "a\u202eb\u009b" + `"`),
	}}); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"job", "ls", "email"},
		{"job", "get", "email", "w"},
		{"job", "ls", "email", "-o", "json", "--payload"},
		{"job", "get", "email", "w", "-o", "json"},
		{"queue", "info", "email"},
		{"queue", "info", "email", "-o", "json"},
	} {
		r := expect(t, ExitDone, "", "", args...)
		for _, c := range r.out {
			if !unicode.IsPrint(c) && c != '\n' {
				t.Errorf("%v prints %q:\n%q", args, c, r.out)
				break
			}
		}
		if args[0] == "job" && (!strings.Contains(r.out, `invoice\u202egpj.exe\u009b2J\u001b[2J\u200b`) ||
			args[1] == "get" && !strings.Contains(r.out, `"a\u202eb\u009b"`)) {
			t.Errorf("%v does not show it:\n%s", args, r.out)
		}
	}
}
