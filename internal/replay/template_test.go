package replay

import (
	"errors"
	"strings"
	"testing"
)

// TestTemplate checks that different values never make the same key.
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
			t.Errorf("%q is accepted", bad)
		}
	}
}

// A key that is too long takes no more memory than a short one, even if it repeats a large value, and no new buffer.
func TestTooLongKeysAllocateNothing(t *testing.T) {
	keys, err := parseTemplate(strings.Repeat("{a}:", 50))
	if err != nil {
		t.Fatal(err)
	}
	values := [][]byte{[]byte(strings.Repeat("x", MaxLineBytes))}
	buf := make([]byte, 0, 4096)
	if got := testing.AllocsPerRun(100, func() {
		b, err := keys.expand(buf, values)
		if !errors.Is(err, errKeyLong) || cap(b) != cap(buf) {
			t.Fatalf("%v, a buffer of %d", err, cap(b))
		}
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}
