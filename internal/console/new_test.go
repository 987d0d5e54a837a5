package console_test

import (
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/test/browser"
)

// A queue is created from a form. A refused form keeps its input.
func TestNewQueue(t *testing.T) {
	for name, o := range map[string]browser.Options{"with JavaScript": {}, "without": {NoScript: true}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			p := r.signIn(o)
			p.Click(".head a.button")
			p.Type("input[name=_name]", "email")
			p.Type("input[name=rate]", "fast")
			p.Type("input[name='lanes.rate']", "2/s")
			p.Click("button.primary")
			if says := p.Text(".refused [role=alert]"); !strings.Contains(says, "fast") {
				t.Errorf("the refused rate says %q", says)
			}
			p.Wrong() // the answer of 400
			for field, want := range map[string]string{"_name": "email", "rate": "fast", "lanes.rate": "2/s"} {
				if got := browser.Value[string](p, `document.querySelector("input[name='`+field+`']").value`); got != want {
					t.Errorf("%s is %q, was %q", field, got, want)
				}
			}
			browser.Value[bool](p, `(document.querySelector("input[name=rate]").value = "14/s", true)`)
			p.Click("button.primary")
			p.Until(`document.querySelector("#queue h1")?.textContent === "email"`)
			answer := r.must("GET", "/v1/queues/email", nil)
			if !strings.Contains(answer, `"rate":"14/s"`) || !strings.Contains(answer, `"rate":"2/s"`) {
				t.Errorf("the queue is %s", answer)
			}

			// A queue that exists is not overwritten.
			p.Go(r.url("/new/queue"))
			p.Type("input[name=_name]", "email")
			p.Type("input[name=rate]", "1/s")
			p.Click("button.primary")
			if says := p.Text("main > [role=alert]"); !strings.Contains(says, "email exists already") {
				t.Errorf("the page says %q", says)
			}
			p.Wrong() // the answer of 412
			p.Fine()
		})
	}
}

// A rule is created from a form. A refused form keeps its input.
func TestNewRule(t *testing.T) {
	r := newRig(t)
	p := r.signIn(browser.Options{})
	p.Go(r.url("/rules"))
	if says := p.Text("#rules .none"); !strings.Contains(says, "penstock rule apply -f FILE") {
		t.Errorf("without rules the page says %q", says)
	}
	p.Click(".head a.button")
	p.Type("input[name=_name]", "signup")
	browser.Value[bool](p, `(document.querySelector("select[name=algorithm]").value = "fixed_window", true)`)
	p.Type("input[name='limit:json']", "5")
	p.Type("input[name=key]", "{lane}")
	p.Click("button.primary")
	if says := p.Text("main > [role=alert]"); !strings.Contains(says, "period") {
		t.Errorf("without a period the page says %q", says)
	}
	p.Wrong() // the answer of 400
	p.Until(`document.querySelector("select[name=algorithm]").value === "fixed_window"`)
	p.Until(`document.querySelector("input[name=key]").value === "{lane}"`)
	p.Type("input[name=period]", "1h")
	p.Click("button.primary")
	p.Until(`document.querySelector("h1")?.textContent === "signup"`)
	if answer := r.must("GET", "/v1/rules/signup", nil); !strings.Contains(answer, `"limit":5,"period":"1h0m0s"`) {
		t.Errorf("the rule is %s", answer)
	}
	p.Fine()
}

// A test job is sent from the page of its queue, and then shown.
func TestSendATestJob(t *testing.T) {
	r := newRig(t)
	r.queue("email", fields{"rate": "1/h"})
	p := r.signIn(browser.Options{})
	p.Go(r.url("/queues/email"))
	p.Click(`[data-key$="/jobs Send a test job"] summary`)
	p.Click(`[data-key$="/jobs Send a test job"] .do button`)
	p.Until(`location.pathname.includes("/queues/email/jobs/test-")`)
	p.Until(`document.querySelector("main").textContent.includes('"test": true')`)
	p.Fine()
}

// The page of a new app asks for what it needs, and does not look like an error.
func TestNewApp(t *testing.T) {
	r := newRig(t)
	p := r.signIn(browser.Options{})
	p.Go(r.url("/apps"))
	p.Type("input[name=name]", "acme")
	p.Click(".search .button")
	p.Until(`location.pathname.endsWith("/apps/acme")`)
	if says := p.Text("main"); !strings.Contains(says, "New app acme") || strings.Contains(says, "not exist") {
		t.Errorf("the page says %q", says)
	}
	p.Type("textarea[name='prefixes:list']", "acme-*")
	p.Click(".fields .do .button")
	p.Until(`document.querySelector("h1").textContent === "acme" && document.querySelector("#tokens")`)
	p.Fine()
}

// An installation without jobs does not show the disk as its own data.
func TestStoreOfAnEmptyInstallation(t *testing.T) {
	r := newRig(t)
	p := r.signIn(browser.Options{})
	const store = `[...document.querySelectorAll(".facts div")].find((d) => d.innerText.startsWith("Store")).innerText`
	if says := browser.Value[string](p, store); !strings.HasSuffix(says, "KiB") {
		t.Errorf("an empty store shows %q", says)
	}
	p.Fine()
}

// The table of queues fits its window, and states are readable.
func TestOverviewFits(t *testing.T) {
	r := newRig(t)
	r.queue("crm-sync", fields{"rate": "100/h"})
	r.jobs("crm-sync", 1, nil)
	for _, width := range []int64{1440, 1024, 390} {
		p := r.signIn(browser.Options{Width: width, Height: 800})
		p.Until(`document.querySelector(".queues [data-key=crm-sync]")`)
		for _, of := range []string{".scroll:has(.queues)", ".queues .does", ".queues tbody th"} {
			if cut := browser.Value[int](p, `(({scrollWidth, clientWidth}) => scrollWidth - clientWidth)`+
				`(document.querySelector("`+of+`"))`); cut > 1 {
				t.Errorf("at %d px, %s is cut by %d px", width, of, cut)
			}
		}
		p.Fine()
	}
}
