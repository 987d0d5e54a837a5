package chart_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/replay/chart"
)

func page(t *testing.T, name string) string {
	t.Helper()
	p := chart.Page{Title: name, Note: name, Panels: []chart.Panel{{
		Title: name, Unit: name, Series: []chart.Series{{Name: name, Color: chart.Passed, Values: []int64{1, 2}}},
	}}}
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	html, err := p.HTML([]time.Time{begin, begin.Add(time.Second), begin.Add(2 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	return string(html)
}

// Names come from logs and rules, whose authors may be hostile; none of them escapes its place in the page.
func TestHostileNames(t *testing.T) {
	plain := page(t, "requests")
	for _, name := range []string{
		"</script><script>alert(1)</script>", "<!--", "<![CDATA[", `"><img src=x onerror=alert(1)>`, "'; alert(1); '",
		"</title>", "\u2028\u2029",
		"${alert(1)}", "</style>", "{{.Page}}",
	} {
		html := page(t, name)
		for _, tag := range []string{"<script", "</script", "<img", "<style", "</style", "</title", "<!--"} {
			if strings.Count(html, tag) != strings.Count(plain, tag) {
				t.Errorf("%q adds a %s", name, tag)
			}
		}
	}
}

// A page works without a network and requests nothing.
func TestPageNeedsNothing(t *testing.T) {
	html := page(t, "requests")
	for _, needs := range []string{`src=`, `<link`, `@import`, `url(`, `fetch(`, `XMLHttpRequest`} {
		if strings.Contains(html, needs) {
			t.Errorf("the page has %s", needs)
		}
	}
	if !strings.Contains(html, `"times":[1767323045,1767323046,1767323047]`) {
		t.Error("the instants are not seconds of UTC")
	}
	if licence, err := os.ReadFile("uplot/LICENSE"); err != nil || !strings.Contains(string(licence), "MIT") {
		t.Errorf("the library's license: %v", err)
	}
}

// Colors mean the same everywhere: the picture in the documentation uses the page's colors.
func TestColors(t *testing.T) {
	svg, err := os.ReadFile("../../../docs/closed-loop.svg")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range regexp.MustCompile(`stroke="(#[0-9a-f]{6})"`).FindAllSubmatch(svg, -1) {
		if got := string(c[1]); got != chart.Given && got != chart.Passed {
			t.Errorf("%s is neither the color of given values nor of passed ones", got)
		}
	}
}
