// Package docs contains the documentation and its tests. They run, parse or compile every code block on every page, and
// check every link, flag, metric and file name.
//
// The shell blocks of a page run in order, in a separate directory with the repository's examples/ and deploy/, with
// the programs on the PATH and with separate servers in place of localhost:8080, 6379 and so on. The language of a
// block decides how it is checked; see check. A comment before a block that cannot run states the reason:
//
//	<!-- not run: needs root -->
package docs

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// most is the maximum number of words on all pages together, except those of groups.
const most = 34_020

// budgets are the maximum numbers of words of all pages.
var budgets = map[string]int{
	"README.md":              1300,
	"CONTRIBUTING.md":        840,
	"CHANGELOG.md":           600,
	"deploy/README.md":       1300,
	"docs/design.md":         4070,
	"docs/api.md":            3600,
	"docs/proxy.md":          910,
	"docs/console.md":        330,
	"docs/cli.md":            1700,
	"docs/configuration.md":  4275,
	"docs/access.md":         1008,
	"docs/admission.md":      1100,
	"docs/roles.md":          250,
	"docs/go.md":             620,
	"docs/python.md":         620,
	"docs/typescript.md":     620,
	"docs/testing.md":        300,
	"docs/limiters.md":       850,
	"docs/deferred.md":       950,
	"docs/metrics.md":        1530,
	"docs/runbook.md":        1340,
	"docs/tracing.md":        315,
	"docs/backup.md":         880,
	"docs/prove.md":          1000,
	"docs/benchmarks.md":     1220,
	"docs/targets/asynq.md":  504,
	"docs/targets/custom.md": 300,
	"docs/targets/http.md":   1150,
	"docs/targets/nats.md":   350,
	"docs/targets/sms.md":    800,
	"docs/targets/smtp.md":   800,

	"queue/redisq/lua/README.md":   1030,
	"clients/python/README.md":     150,
	"clients/typescript/README.md": 400,
}

func TestPages(t *testing.T) {
	t.Parallel()
	all, inGroup := 0, map[string]int{}
	for _, name := range pages(t) {
		p := read(t, name)
		if group := groupOf(name); group != "" {
			inGroup[group] += p.words()
		} else {
			all += p.words()
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p.hold(t)
		})
	}
	if all > most {
		t.Errorf("the pages have %d words, the limit is %d", all, most)
	}
	for group, words := range inGroup {
		if words > groups[group] {
			t.Errorf("the pages of %s have %d words, the limit is %d", group, words, groups[group])
		}
	}
}

// hold runs all checks of the page.
func (p *page) hold(t testing.TB) {
	p.fits(t)
	p.leads(t)
	p.names(t)
	p.check(t)
}

// fits checks the length of the page and of its lines.
func (p *page) fits(t testing.TB) {
	t.Helper()
	switch budget, known := budgets[p.name]; {
	case groupOf(p.name) != "": // the group has a budget
	case !known:
		t.Errorf("%s has no budget of words: give it one in budgets", p.name)
	case p.words() > budget:
		t.Errorf("%s has %d words, its budget is %d", p.name, p.words(), budget)
	}
	if p.name != "README.md" && !strings.Contains(
		strings.Join(p.lines[:min(8, len(p.lines))], " "), "After this page you ",
	) {
		t.Errorf("%s does not begin with the reader's aim, \"After this page you ...\"", p.name)
	}
	code := false
	for i, line := range p.lines {
		switch {
		case fence.MatchString(line):
			code = !code
		case !code && strings.HasPrefix(line, "    ") && i > 0 && p.lines[i-1] == "":
			t.Errorf("%s: code is fenced, with its language, so that it is checked", p.at(i+1))
		case code, strings.HasPrefix(strings.TrimSpace(line), "|"), strings.HasPrefix(line, "<!--"): // may be longer
		case utf8.RuneCountInString(line) > 120:
			t.Errorf("%s: longer than 120 columns", p.at(i+1))
		}
	}
	if code {
		t.Errorf("%s: a block of code does not end", p.name)
	}
}

// leads checks the links within the repository.
func (p *page) leads(t testing.TB) {
	t.Helper()
	for _, l := range p.links {
		if strings.Contains(l.target, "://") {
			continue
		}
		file, head, _ := strings.Cut(l.target, "#")
		to := p
		if file != "" {
			if !exists(p.beside(file)) {
				t.Errorf("%s: there is no %s", p.at(l.line), l.target)
				continue
			}
			if !strings.HasSuffix(file, ".md") {
				continue
			}
			to = read(t, p.beside(file))
		}
		if head != "" && !to.heads[head] {
			t.Errorf("%s: %s has no heading %q", p.at(l.line), to.name, head)
		}
	}
}
