package api_test

import (
	"testing"

	"github.com/penstock/penstock/internal/api"
)

// If-Match is a list, on one line or on several, with empty elements in it or not.
func TestIfMatchIsAList(t *testing.T) {
	for _, c := range []struct {
		lines  []string
		status int
	}{
		{[]string{`"9"`, `"1"`}, 200},
		{[]string{`"1"`, `"9"`}, 200},
		{[]string{`"9", "8"`, `"7","1"`}, 200},
		{[]string{"", `"1"`}, 200},
		{[]string{`, "1",,`}, 200},
		{[]string{`"9"`, `"8"`}, 412},
		{[]string{`"8"`, ""}, 412},
		{[]string{`"1"`, `W/"1"`}, 400},
		{[]string{`"1"`, "*"}, 400},
		{[]string{""}, 400},
		{[]string{" ", ","}, 400},
	} {
		var header []string
		for _, line := range c.lines {
			header = append(header, "If-Match", line)
		}
		f := serve(t, api.Options{})
		if a := f.do("PUT", email, `{"rate":"2/m"}`, header...); a.status != c.status ||
			c.status == 400 && a.body["field"] != "If-Match" {
			t.Errorf("%q: %d, want %d: %s", c.lines, a.status, c.status, a.text)
		}
	}
	f := serve(t, api.Options{})
	f.do("PUT", email, `{"rate":"2/m"}`, "If-None-Match", "", "If-None-Match", "*").want(t, 412)
	f.do("PUT", email, `{"rate":"2/m"}`, "If-None-Match", "").want(t, 400, "field", "If-None-Match")
	f.do(
		"PUT", email, `{"rate":"2/m"}`, "If-None-Match", "*", "If-None-Match", `"1"`,
	).want(t, 400, "field", "If-None-Match")
}
