package queuecmd

import (
	"slices"
	"strings"
	"testing"
)

func TestKeys(t *testing.T) {
	for _, tt := range []struct {
		what  string
		reads []string // "" is a pause
		want  []key
	}{
		{"letters", []string{"sSq"}, []key{"s", "S", "q"}},
		{"names", []string{"jk\r\x03 bgG"}, []key{keyDown, keyUp, keyEnter, keyCtrlC, keyPageDn, keyPageUp, keyHome, keyEnd}},
		{"arrows", []string{"\x1b[A\x1bOB\x1b[5~\x1b[6~"}, []key{keyUp, keyDown, keyPageUp, keyPageDn}},
		{"an arrow in parts", []string{"\x1b", "[", "Aq"}, []key{keyUp, "q"}},
		{"escape", []string{"\x1b", ""}, []key{keyEscape}},
		{"escape and a key", []string{"\x1bq"}, []key{keyEscape, "q"}},
		{"escape twice", []string{"\x1b\x1b", ""}, []key{keyEscape, keyEscape}},
		{"escape, then an arrow", []string{"\x1b", "", "\x1b[B"}, []key{keyEscape, keyDown}},
		{"an unknown sequence", []string{"\x1b[1;5Cx"}, []key{"x"}},
		{
			"an endless sequence",
			[]string{"\x1b[" + strings.Repeat("1", 100) + "mx"},
			append(slices.Repeat([]key{"1"}, 85), "m", "x"),
		},
		{"other characters", []string{"é\x00\x07\xff"}, nil},
	} {
		var r keyReader
		var got []key
		for _, text := range tt.reads {
			if text == "" {
				got = append(got, r.late()...)
			} else {
				got = append(got, r.read(text)...)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.what, got, tt.want)
		}
	}
}
