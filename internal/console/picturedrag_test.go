package console_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/penstock/penstock/internal/test/browser"
	"github.com/penstock/penstock/leaky"
)

// slope creates a queue that sends 1 of its 600 jobs a second.
func (r *rig) slope() {
	r.t.Helper()
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r.t.Cleanup(receiver.Close)
	r.queue("email", fields{"pull": false, "rate": "1/s", "deliver": fields{"http": fields{"url": receiver.URL}}})
	jobs := strings.Repeat(`{"payload":1}`+"\n", 600)
	status, answers := r.send(http.MethodPost, "/v1/queues/email/jobs", "application/x-ndjson", strings.NewReader(jobs))
	if n := strings.Count(answers, `"status":202`); n != 600 {
		r.t.Fatalf("%d jobs are accepted: %d, %.200s", n, status, answers)
	}
}

const (
	ending = `document.querySelector("#picture .says > strong").textContent`
	other  = `document.querySelector("#picture .other strong")?.textContent`
)

// Dragging the slope of the forecast shows the finish at that rate, while the mouse moves and afterwards.
func TestSlopeIsDragged(t *testing.T) {
	r := newRig(t, "--egress-allow", "127.0.0.1")
	r.slope()
	p := r.signIn(browser.Options{})
	p.Go(r.url("/queues/email"))
	p.Until(ending + `.startsWith("Done")`)
	browser.Value[bool](p, `(window.here = true)`)
	held := ""
	p.Drag("#picture .handle", -120, -30, func() {
		p.Until(other + `?.startsWith("done")`)
		held = browser.Value[string](p, `document.querySelector("input[name=rate]").value`)
	})
	p.Until(`!document.querySelector("#picture .held")`)
	rate, err := leaky.ParseRate(held)
	if err != nil || rate.PerSecond() < 2 || rate.PerSecond() > 20 {
		t.Errorf("the mouse chose %q: %v", held, err)
	}
	if at := p.Address(); !strings.Contains(at, "/queues/email?rate="+url.QueryEscape(held)) {
		t.Errorf("the page is at %s", at)
	}
	says := p.Text("#picture .says")
	if !strings.Contains(says, "At "+held+": done") || !strings.HasPrefix(says, "Done ") {
		t.Errorf("it says %q", says)
	}
	// The curve of the new rate is where the mouse was left, and a new drag begins there.
	p.Drag("#picture .handle", 60, 20, func() {
		p.Until(`document.querySelector("input[name=rate]").value !== "` + held + `"`)
	})
	p.Click("#picture .says a")
	p.Until(`!location.search.includes("rate") && !document.querySelector("#picture .other") &&
		document.querySelector("input[name=rate]").value === ""`)
	p.Until("window.here")
	p.Fine()
}

// The form does the same from the keyboard. A bad rate keeps the input and the forecast.
func TestRateIsTyped(t *testing.T) {
	r := newRig(t, "--egress-allow", "127.0.0.1")
	r.slope()
	for _, noScript := range []bool{false, true} {
		p := r.signIn(browser.Options{NoScript: noScript})
		p.Go(r.url("/queues/email"))
		p.Type("input[name=rate]", "10/s")
		p.Press(kb.Enter)
		p.Text("#picture .other")
		if says := p.Text("#picture .says"); !strings.Contains(says, "At 10/s: done") || !strings.HasPrefix(says, "Done ") {
			t.Errorf("without scripts %v: it says %q", noScript, says)
		}
		p.Click("input[name=rate]")
		p.Press(kb.End + " fast" + kb.Enter)
		deadline := time.Now().Add(10 * time.Second)
		for !strings.Contains(p.Text("#rate-wrong"), `"10/s fast"`) {
			if time.Now().After(deadline) {
				t.Fatalf("without scripts %v: a bad rate is answered %q", noScript, p.Text("#rate-wrong"))
			}
		}
		if noScript {
			p.Reload() // as a page of its own
		}
		if says := p.Text("#picture .says"); strings.Contains(says, "At ") || !strings.HasPrefix(says, "Done ") {
			t.Errorf("without scripts %v: beside a bad rate it says %q", noScript, says)
		}
		if noScript {
			continue
		}
		if input := browser.Value[string](p, `document.querySelector("input[name=rate]").value`); input != "10/s fast" {
			t.Errorf("the input is %q", input)
		}
		p.Fine()
	}
}
