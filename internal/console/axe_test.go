package console_test

import (
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/console"
	"github.com/penstock/penstock/internal/test/browser"
)

// styleRules are the rules whose verdict a theme can change, or a width between the others.
var styleRules = []string{"color-contrast", "link-in-text-block", "scrollable-region-focusable"}

// Every page, in both themes and at three widths, is free of the faults that axe-core finds.
func TestAccessibility(t *testing.T) {
	axe := browser.AxeScript(t)
	r := newRig(t, "--egress-allow", "127.0.0.1")
	r.world()
	type audit struct {
		width int64
		rules []string // all, if there are none
	}
	audits := map[bool][]audit{
		false: {{width: 1440}, {1024, styleRules}, {width: 390}},
		true:  {{1440, styleRules}, {1024, styleRules}, {390, styleRules}},
	}
	check := func(t *testing.T, p *browser.Page, at string, dark bool) {
		t.Helper()
		p.Go(r.url(at))
		for _, a := range audits[dark] {
			p.Resize(a.width, 900)
			for _, found := range p.Violations(axe, a.rules...) {
				t.Errorf("%s at %d px: %s", at, a.width, found)
			}
		}
	}
	for _, dark := range []bool{false, true} {
		t.Run(map[bool]string{false: "light", true: "dark"}[dark], func(t *testing.T) {
			check(t, browser.New(t, browser.Options{Dark: dark}), "/sign-in", dark)
			p := r.signIn(browser.Options{Dark: dark})
			for _, path := range console.PagePaths() {
				at := samples.Replace(path)
				if strings.Contains(at, "{") {
					t.Errorf("%s needs something that is not in the world", path)
					continue
				}
				check(t, p, at, dark)
			}
			for _, at := range []string{
				"/queues/none", "/?name=none", "/queues/webhooks", "/queues/email.newsletter", "/queues/email?window=24h",
				"/queues/campaign", "/queues/campaign/lanes", "/queues/exports/lanes", "/queues/reports/receiver",
				"/queues/webhooks/jobs/hook-1", "/?sort=-finish",
				"/queues/email?rate=5/s", "/queues/email?rate=fast", "/?state=paused",
				"/queues/reports/jobs?state=dead", "/queues/email/jobs?state=scheduled", "/queues/none/settings",
			} {
				check(t, p, at, dark)
			}
			p.Go(r.url("/"))
			p.Press("?")
			p.Text("#keys dl")
			for _, found := range p.Violations(axe) {
				t.Errorf("the list of keys: %s", found)
			}
			p.Wrong() // the answer of 404
		})
	}
}
