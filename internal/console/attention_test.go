package console_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/browser"
)

// problem returns the sentence about a queue in the list of problems.
func problem(check, queue string) string {
	return `document.querySelector('.troubles [data-key="` + check + " " + queue + `"]')`
}

// Each problem is a sentence with the button that fixes it.
func TestProblemsAreFixed(t *testing.T) {
	t.Parallel() // it mostly waits
	r := newRig(t, "--egress-allow", "127.0.0.1")
	r.queue("email", fields{"rate": "1/h"})
	p := r.signIn(browser.Options{})
	p.Until(`document.querySelector("[data-key=email]") && !document.querySelector(".troubles")`)
	r.jobs("email", 2, nil)
	r.must("POST", "/v1/queues/email/pause", fields{"reason": "wrong <b>link</b>"})
	p.Until(problem("paused", "email"))
	says := browser.Value[string](p, problem("paused", "email")+".innerText")
	if !strings.Contains(says, "email is paused with 2 jobs in it for ") || !strings.Contains(says, "wrong <b>link</b>") {
		t.Errorf("the problem of a paused queue: %q", says)
	}
	p.Click(`.troubles [data-key="paused email"] .do button`)
	p.Until("!" + problem("paused", "email"))
	if answer := r.must("GET", "/v1/queues/email", nil); !strings.Contains(answer, `"paused":false`) {
		t.Errorf("the queue is not resumed: %s", answer)
	}
	r.queue("lost", fields{"pull": false})
	r.jobs("lost", 1, nil)
	p.Until(problem("no_target", "lost"))
	p.Click(`.troubles [data-key="no_target lost"] > a.button`)
	p.Until(`location.pathname.endsWith("/queues/lost/settings") && location.hash === "#deliver"`)
	p.Fine()
}

// A queue that its receiver stopped, or whose circuit is open, can be resumed from its page.
func TestStoppedQueueIsResumed(t *testing.T) {
	t.Parallel() // it mostly waits
	r := newRig(t, "--egress-allow", "127.0.0.1")
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "900")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	t.Cleanup(busy.Close)
	for name, c := range map[string]struct{ url, state, button string }{
		"busy": {busy.URL, "asked to wait", "Resume"},
		"down": {"http://127.0.0.1:1/", "circuit open", "Probe now"},
	} {
		r.queue(name, fields{
			"pull": false, "deliver": fields{"http": fields{"url": c.url}},
			"circuit": fields{"failures": 1, "min_probe": "10m", "max_probe": "10m"},
		})
		r.jobs(name, 2, nil)
		p := r.signIn(browser.Options{})
		await.Until(t, name+" stops", func() bool {
			return strings.Contains(r.must("GET", "/v1/queues/"+name, nil), c.state)
		})
		p.Go(r.url("/queues/" + name))
		if says := p.Text("#queue .actions .do button"); says != c.button {
			t.Errorf("%s: the first button says %q", name, says)
		}
		p.Until(`document.querySelector("#queue .notice").textContent.includes("or the queue is resumed")`)
		p.Click("#queue .head .actions .do button")
		await.Until(t, "a person resumes "+name, func() bool {
			return strings.Contains(r.must("GET", "/v1/queues/"+name+"/changes", nil), `"resumed"`)
		})
		p.Fine()
	}
}

// Held and dead jobs, and a queue that refuses jobs, do not look calm.
func TestTroubleDoesNotLookCalm(t *testing.T) {
	t.Parallel() // it mostly waits
	r := newRig(t)
	r.queue("held", fields{"rate": "1/h", "on_unknown": "hold", "lease": "1s"})
	r.queue("dead", fields{"rate": "1/h"})
	r.queue("full", fields{"rate": "1/h", "capacity": 1})
	for _, name := range []string{"held", "dead"} {
		r.jobs(name, 1, nil)
		leased := r.must("POST", "/v1/queues/"+name+"/leases", fields{"wait": "5s"})
		if name == "dead" {
			r.must("POST", "/v1/queues/dead/settle", fields{"jobs": []fields{{
				"id": between(t, leased, `"id":"`, `"`), "lease": between(t, leased, `"lease":"`, `"`), "outcome": "dead",
			}}})
		}
	}
	r.jobs("full", 1, nil)
	p := r.signIn(browser.Options{})
	tone := func(name, class string) string {
		return `document.querySelector(".queues [data-key=` + name + `] .state.` + class + `")`
	}
	p.Until(tone("held", "warn"))
	p.Until(tone("dead", "warn"))
	p.Until(tone("full", "warn"))
	p.Until(`document.querySelector(".queues [data-key=held]").innerText.includes("1 to decide")`)
	p.Until(`document.querySelector(".queues [data-key=dead]").innerText.includes("1 dead")`)
	if says := p.Text(`.troubles [data-key="dead dead"] summary`); says != "Replay 1" {
		t.Errorf("the button for dead jobs says %q", says)
	}
	if says := p.Text(`.troubles [data-key="held held"] > a.button`); says != "Decide 1" {
		t.Errorf("the button for held jobs says %q", says)
	}
	p.Click(`.troubles [data-key="dead dead"] summary`)
	p.Click(`.troubles [data-key="dead dead"] .do button`)
	p.Until(`document.querySelector('.troubles [data-key="dead dead"] .do button').textContent.includes("1 job")`)
	p.Click(`.troubles [data-key="dead dead"] .do button`)
	p.Until("!" + problem("dead", "dead"))
	r.jobs("full", 1, nil) // refused
	p.Until(tone("full", "bad"))
	p.Until(problem("refusing", "full"))
	p.Fine()
}
