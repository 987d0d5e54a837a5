package jsondepth

import (
	"errors"
	"strings"
	"testing"
)

// nested is text that opens n times.
func nested(open string, n int) string { return strings.Repeat(open, n) }

func TestDepth(t *testing.T) {
	for _, c := range []struct {
		text   string
		offset int // -1: it may be
		field  string
	}{
		{``, -1, ""},
		{`1`, -1, ""},
		{nested("[", 64) + nested("]", 64), -1, ""},
		{nested("[", 65) + nested("]", 65), 64, "0.0"},
		{`{"a":` + nested("[", 63) + nested("]", 63) + `}`, -1, ""},
		{`{"a":` + nested("[", 64), 68, "a.0"},
		{`{"a":1,"b":{"c":` + nested("[", 100_000), 78, "b.c.0"},
		{`{"s":"` + nested("[", 1000) + `"}`, -1, ""},
		{`{"s":"\"` + nested("[", 1000) + `"}`, -1, ""},
		{`{"s":"\\",` + nested("[", 1000) + `"}`, 73, ""},
		{`[` + strings.Repeat("[],{},", 10_000) + `1]`, -1, ""},
		{strings.Repeat("]", 1000) + nested("[", 65), -1, ""}, // no parser comes to the end of it
		{`{"` + strings.Repeat("x", 300) + `":` + nested("[", 70), 367, strings.Repeat("x", 120) + "..."},
	} {
		err := Check([]byte(c.text), Max)
		var deep *Error
		switch {
		case c.offset < 0:
			if err != nil {
				t.Errorf("%.40s...: %v", c.text, err)
			}
		case !errors.As(err, &deep):
			t.Errorf("%.40s...: %v", c.text, err)
		case deep.Offset != c.offset || !strings.HasPrefix(deep.Field, c.field):
			t.Errorf("%.40s...: byte %d in %q, want %d in %q", c.text, deep.Offset, deep.Field, c.offset, c.field)
		}
	}
	err := Check([]byte(`{"a":`+nested("[", 64)), Max)
	if want := "is nested deeper than 64 levels, at byte 68"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
