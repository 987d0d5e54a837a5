package console_test

import (
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/console"
	"github.com/penstock/penstock/internal/test/browser"
	"github.com/penstock/penstock/internal/test/long"
)

// styleRules are the rules whose verdict a theme can change, or a width between the others.
var styleRules = []string{"color-contrast", "link-in-text-block", "scrollable-region-focusable"}

// audits are the themes and widths in which a page is checked in the long form, and the rules: all, if there are none.
var audits = []struct {
	dark  bool
	width int64
	rules []string
}{
	{false, 1440, nil},
	{true, 390, styleRules},
	{false, 1024, styleRules},
	{true, 1440, styleRules},
	{false, 390, nil},
	{true, 1024, styleRules},
}

// accessible checks pages of one theme.
type accessible struct {
	*testing.T
	axe  string
	dark bool
	n    int // number of the next page, the same in both themes
}

// check checks the page that show opens. The short form checks all rules in one theme and at one width, which change
// from page to page. The long form checks every theme and width.
func (a *accessible) check(p *browser.Page, at string, show func()) {
	a.Helper()
	n := a.n
	a.n++
	shown := false
	for i, audit := range audits {
		rules := audit.rules
		if !long.Form() {
			if i != n%len(audits) {
				continue
			}
			rules = nil
		}
		if audit.dark != a.dark {
			continue
		}
		if !shown {
			show()
			shown = true
		}
		p.Resize(audit.width, 900)
		for _, found := range p.Violations(a.axe, rules...) {
			a.Errorf("%s at %d px: %s", at, audit.width, found)
		}
	}
}

// statesOfPages are pages in other states. The short form checks every third.
var statesOfPages = []string{
	"/queues/none", "/?name=none", "/queues/webhooks", "/queues/email.newsletter", "/queues/email?window=24h",
	"/queues/campaign", "/queues/campaign/lanes", "/queues/exports/lanes", "/queues/reports/receiver",
	"/queues/webhooks/jobs/hook-1", "/?sort=-finish", "/queues/email?rate=5/s", "/queues/email?rate=fast",
	"/?state=paused", "/queues/reports/jobs?state=dead", "/queues/email/jobs?state=scheduled", "/queues/none/settings",
}

// Every page is free of the faults that axe-core finds, in both themes and at three widths.
func TestAccessibility(t *testing.T) {
	axe := browser.AxeScript(t)
	r := newRig(t, "--egress-allow", "127.0.0.1")
	r.world()
	for _, dark := range []bool{false, true} {
		t.Run(map[bool]string{false: "light", true: "dark"}[dark], func(t *testing.T) {
			a := &accessible{T: t, axe: axe, dark: dark}
			p := browser.New(t, browser.Options{Dark: dark})
			a.check(p, "/sign-in", func() { p.Go(r.url("/sign-in")) })
			p = r.signIn(browser.Options{Dark: dark})
			for _, path := range console.PagePaths() {
				at := samples.Replace(path)
				if strings.Contains(at, "{") {
					t.Errorf("%s needs something that is not in the world", path)
					continue
				}
				a.check(p, at, func() { p.Go(r.url(at)) })
			}
			for i, at := range statesOfPages {
				if i%long.Of(3, 1) == 0 {
					a.check(p, at, func() { p.Go(r.url(at)) })
				}
			}
			a.check(p, "the list of keys", func() {
				p.Go(r.url("/"))
				p.Press("?")
				p.Text("#keys dl")
			})
			p.Wrong() // the answer of 404
		})
	}
}
