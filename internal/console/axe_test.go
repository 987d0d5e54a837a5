package console_test

import (
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/console"
	"github.com/penstock/penstock/internal/test/browser"
)

// Every page, in both themes and at three widths, is free of the faults that axe-core finds.
func TestAccessibility(t *testing.T) {
	axe := browser.AxeScript(t)
	r := newRig(t, "--egress-allow", "127.0.0.1")
	r.world()
	check := func(t *testing.T, p *browser.Page, at string) {
		t.Helper()
		p.Go(r.url(at))
		for _, width := range []int64{1440, 1024, 390} {
			p.Resize(width, 900)
			for _, found := range p.Violations(axe) {
				t.Errorf("%s at %d px: %s", at, width, found)
			}
		}
	}
	for _, dark := range []bool{false, true} {
		t.Run(map[bool]string{false: "light", true: "dark"}[dark], func(t *testing.T) {
			check(t, browser.New(t, browser.Options{Dark: dark}), "/sign-in")
			p := r.signIn(browser.Options{Dark: dark})
			for _, path := range console.PagePaths() {
				at := samples.Replace(path)
				if strings.Contains(at, "{") {
					t.Errorf("%s needs something that is not in the world", path)
					continue
				}
				check(t, p, at)
			}
			for _, at := range []string{
				"/queues/none", "/?name=none", "/queues/webhooks", "/queues/email.newsletter", "/queues/email?window=24h",
				"/queues/reports/jobs?state=dead", "/queues/email/jobs?state=scheduled", "/queues/none/settings",
			} {
				check(t, p, at)
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
