package replay

import (
	"strings"
	"testing"
)

// TestTemplate: no two lists of values make one key.
func TestTemplate(t *testing.T) {
	keys, err := parseTemplate("{a}:{b}")
	if err != nil {
		t.Fatal(err)
	}
	keys[0].slot, keys[2].slot = 0, 1
	for values, want := range map[[2]string]string{
		{"a:b", "c"}: "a%3Ab:c", {"a", "b:c"}: "a:b:c", {"a%3Ab", "c"}: "a%253Ab:c",
	} {
		got, err := keys.expand(nil, [][]byte{[]byte(values[0]), []byte(values[1])})
		if err != nil || string(got) != want {
			t.Errorf("%v: %q, %v; want %q", values, got, err, want)
		}
	}
	for _, bad := range []string{"{a}{b}", "{a", "a}", "{}", "{a}%{b}", strings.Repeat("a", 600)} {
		if _, err := parseTemplate(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
