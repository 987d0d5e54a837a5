package show

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
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

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		text  string
		width int
		want  string
		runes int
	}{
		{"grüße", 4, "grü~", 5},
		{"grüße", 5, "grüße", 5},
		{"grüße", 0, "grüße", 5},
		{"\x1b[0;31mred\x1b[0m text", 5, "\x1b[0;31mred\x1b[0m ~\x1b[0m", 8},
		{"\x1b[31mred\x1b[0m", 3, "\x1b[31mred\x1b[0m", 3},
		{"\x1b[2J", 3, "\x1b[~", 4}, // not a color
		{"", 1, "", 0},
	} {
		if got := Cut(tt.text, tt.width); got != tt.want || Width(tt.text) != tt.runes {
			t.Errorf("%q cut to %d is %q, want %q; its width is %d", tt.text, tt.width, got, tt.want, Width(tt.text))
		}
	}
}

func TestClock(t *testing.T) {
	now := time.Date(2026, 5, 6, 23, 0, 0, 0, time.Local)
	for in, want := range map[time.Duration]string{
		30 * time.Minute: "23:30:00", 2 * time.Hour: "May 7 01:00", -24 * time.Hour: "May 5 23:00",
		400 * 24 * time.Hour: "2027-06-10",
	} {
		at := now.Add(in)
		if got := Clock(&at, now); got != want {
			t.Errorf("%v: %q, want %q", in, got, want)
		}
	}
	if got := Clock(nil, now); got != "" {
		t.Errorf("no instant: %q", got)
	}
}
