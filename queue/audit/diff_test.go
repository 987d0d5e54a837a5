package audit_test

import (
	"strings"
	"testing"

	"github.com/penstock/penstock/queue/audit"
)

func TestDiffShowsWhereTextsDiffer(t *testing.T) {
	long := strings.Repeat("x", audit.MaxDiffBytes-1)
	for _, tt := range []struct {
		before, after string
		want          audit.Diff
	}{
		{"", "", audit.Diff{}},
		{"abc", "abc", audit.Diff{At: 3}},
		{"", "abc", audit.Diff{After: "abc", AfterBytes: 3}},
		{"abc", "", audit.Diff{Before: "abc", BeforeBytes: 3}},
		{"a1c", "a2c", audit.Diff{At: 1, Before: "1", After: "2", BeforeBytes: 1, AfterBytes: 1}},
		{"aa", "aaa", audit.Diff{At: 2, After: "a", AfterBytes: 1}},
		{"aaa", "aa", audit.Diff{At: 2, Before: "a", BeforeBytes: 1}},
		{"<é>", "<ê>", audit.Diff{At: 1, Before: "é", After: "ê", BeforeBytes: 2, AfterBytes: 2}},   // begin with one byte
		{"<é>", "<ũ©>", audit.Diff{At: 1, Before: "é", After: "ũ©", BeforeBytes: 2, AfterBytes: 4}}, // end with one byte
		{"", long + "é!", audit.Diff{After: long, AfterBytes: audit.MaxDiffBytes + 2}},
	} {
		if got := audit.DiffOf(tt.before, tt.after); got != tt.want {
			t.Errorf("from %q to %q: %+v, want %+v", tt.before, tt.after, got, tt.want)
		}
	}
}
