package command

import "testing"

func TestTextFitsTheTerminal(t *testing.T) {
	for _, c := range []struct {
		text          string
		width, height int
		want          string
	}{
		{"a\nb\n", 20, 10, "a\nb\n"},
		{"0123456789\nb\n", 5, 10, "0123~\nb\n"},
		{"a\nb\nc\nd\n", 60, 4, "a\nb\n... 2 more lines; enlarge the terminal to see them\n"},
		{"a\nb\nc\n", 60, 4, "a\nb\nc\n"},
		{"a\nb\nc\n", 60, 1, "a\n... 2 more lines; enlarge the terminal to see them\n"},
		{"grüße\n", 4, 9, "grü~\n"},
	} {
		if got := fitted(c.text, c.width, c.height); got != c.want {
			t.Errorf("fitted(%q, %d, %d) = %q, want %q", c.text, c.width, c.height, got, c.want)
		}
	}
}
