package show

import (
	"encoding/json"
	"reflect"
	"testing"
	"unicode"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "",
		"Grüße, 日本 🙂":                     "Grüße, 日本 🙂",
		"a\x1b[2Jb":                       `a\u001b[2Jb`,
		"a\u009b2Jb":                      `a\u009b2Jb`, // C1: the CSI of one byte
		"invoice\u202egpj.exe":            `invoice\u202egpj.exe`,
		"\u2066a\u2069\u200b\ufeff\u2028": `\u2066a\u2069\u200b\ufeff\u2028`,
		"a\nb\tc\rd\x00\x7f":              `a b c d\u0000\u007f`,
		"\U000e0041":                      `\udb40\udc41`, // a tag, which prints nothing
		"a\xffb\ufffd":                    "a\ufffdb\ufffd",
	} {
		if got := Text(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
	if got := Lines("a\nb\x07\n"); got != "a\nb\\u0007\n" {
		t.Errorf("lines are shown as %q", got)
	}
}

func FuzzJSON(f *testing.F) {
	for _, s := range []string{"", "a\u202eb", "\u009b2J", "\U000e0041", "\\", "\xff", "\ufeff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text, err := json.MarshalIndent(map[string]any{"k": s, s: []string{s}}, "", "  ")
		if err != nil {
			t.Fatal(err) // any string can be written
		}
		shown := JSON(text)
		for _, r := range string(shown) {
			if !unicode.IsPrint(r) && r != '\n' {
				t.Fatalf("%q is in %s", r, shown)
			}
		}
		var was, is any
		if json.Unmarshal(text, &was) != nil || json.Unmarshal(shown, &is) != nil || !reflect.DeepEqual(was, is) {
			t.Fatalf("%q became %q", text, shown)
		}
	})
}
