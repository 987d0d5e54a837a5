package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/test/browser"
)

func TestPauseAndResume(t *testing.T) {
	r := newRig(t)
	r.queue("email", nil)
	p := r.signIn(browser.Options{})
	p.Go(r.url("/queues/email"))
	p.Click(".actions .ask > summary")
	p.Type(".actions input[name=reason]", "wrong <b>link</b>")
	p.Click(".actions .do .button")
	p.Until(`document.querySelector("#queue .state").textContent.includes("paused")`)
	if answer := r.must("GET", "/v1/queues/email", nil); !strings.Contains(answer, `wrong \u003cb\u003elink`) &&
		!strings.Contains(answer, "wrong <b>link") {
		t.Errorf("the reason is not the given one: %s", answer)
	}
	p.Until(`document.querySelector(".actions form").action.endsWith("/resume")`)
	p.Click(".actions .do .button")
	p.Until(`!document.querySelector("#queue .state").textContent.includes("paused")`)
	p.Fine()
}

// Changes of settings are previewed before they are saved. Saving fails if another user has changed the queue since.
func TestSettingsArePreviewed(t *testing.T) {
	r := newRig(t)
	r.queue("email", fields{"rate": "1/m", "lanes": fields{"rate": "2/s"}})
	r.jobs("email", 10, nil)
	p := r.signIn(browser.Options{})
	preview := func(rate string) {
		p.Go(r.url("/queues/email/settings"))
		browser.Value[bool](p, `(document.querySelector("input[name=rate]").value = "`+rate+`", true)`)
		p.Click("button.primary")
		p.Until(`document.querySelector(".edits")`)
	}
	preview("2/m")
	if says := p.Text("main"); !strings.Contains(says, "1/m") || !strings.Contains(says, "ts 10 jobs") ||
		strings.Contains(says, "lanes") {
		t.Errorf("the page says %q", says)
	}
	p.Click(".do .button")
	p.Until(`document.querySelector("#queue")`)
	rate := func(want string) {
		t.Helper()
		if answer := r.must("GET", "/v1/queues/email", nil); !strings.Contains(answer, `"rate":"`+want+`"`) ||
			!strings.Contains(answer, `"rate":"2/s"`) {
			t.Errorf("the rate is not %s: %s", want, answer)
		}
	}
	rate("2/m")
	p.Fine()

	preview("3/m")
	r.must("PUT", "/v1/queues/email", fields{"rate": "4/m", "pull": true, "lanes": fields{"rate": "2/s"}})
	p.Click(".do .button")
	p.Until(`document.querySelector("#said.bad")`)
	p.Wrong() // the answer of 412
	rate("4/m")

	// A value that is no rate is refused before the preview, and the form keeps its input.
	p.Go(r.url("/queues/email/settings"))
	browser.Value[bool](p, `(document.querySelector("input[name=rate]").value = "fast",
		document.querySelector("input[name='capacity:json']").value = "77", true)`)
	p.Click("button.primary")
	p.Until(`document.querySelector(".refused input[name=rate]")?.value === "fast"`)
	if says := p.Text(".refused [role=alert]"); !strings.Contains(says, "fast") {
		t.Errorf("the input says %q", says)
	}
	p.Until(`document.querySelector("input[name='capacity:json']").value === "77"`)
	p.Wrong() // the answer of 400
	rate("4/m")

	// The way back from the preview keeps the input.
	preview("5/m")
	p.Click("form[action$=settings] .button:not(.primary)")
	p.Until(`document.querySelector("input[name=rate]")?.value === "5/m"`)
	p.Fine()
}

// A bulk action shows the number of jobs before it acts.
func TestActionOnAllJobs(t *testing.T) {
	r := newRig(t)
	r.queue("email", fields{"rate": "1/h"})
	r.jobs("email", 7, fields{"lane": "<script>"})
	r.jobs("email", 5, nil)
	p := r.signIn(browser.Options{})
	p.Go(r.url("/queues/email/jobs?lane=" + "%3Cscript%3E"))
	p.Click(".actions .ask > summary")
	p.Click(".actions .do .button")
	p.Until(`document.querySelector(".actions .do .button").textContent.includes("7 jobs")`)
	if answer := r.must("GET", "/v1/queues/email", nil); !strings.Contains(answer, `"waiting":12`) {
		t.Errorf("counting changed something: %s", answer)
	}
	p.Click(".actions .do .button")
	p.Until(`document.querySelector("#jobs .none")`)
	if answer := r.must("GET", "/v1/queues/email", nil); !strings.Contains(answer, `"waiting":5`) {
		t.Errorf("the 7 jobs were not purged: %s", answer)
	}
	p.Fine()
}

// A bulk action that fails midway shows what was done and what is left.
func TestActionOnAllJobsThatFails(t *testing.T) {
	r := newRig(t)
	r.queue("email", fields{"rate": "1/h"})
	r.jobs("email", 3, nil)
	p := r.signIn(browser.Options{})
	p.Go(r.url("/queues/email/jobs"))
	p.Click(".actions .ask > summary")
	p.Click(".actions .do .button")
	p.Until(`document.querySelector(".actions .do .button").textContent.includes("3 jobs")`)
	browser.Value[bool](p, `(() => {
		const real = window.fetch, answers = [
			[200, {matched: 1200, no_room: 200, next: "x"}], [503, {title: "the store cannot be reached"}],
		];
		window.fetch = (...asked) => {
			const [status, says] = answers.shift() ?? [];
			return says ? Promise.resolve(new Response(JSON.stringify(says), {status})) : real(...asked);
		};
		return true;
	})()`)
	p.Click(".actions .do .button")
	p.Until(`document.querySelector("#said.bad")?.textContent === ` +
		`"the store cannot be reached. 1,000 jobs were done before the error."`)
	p.Fine()
}

// Without JavaScript, the count is a separate page.
func TestActionOnAllJobsWithoutJavaScript(t *testing.T) {
	r := newRig(t)
	r.queue("email", fields{"rate": "1/h"})
	r.jobs("email", 7, fields{"lane": "<script>"})
	r.jobs("email", 5, nil)
	p := r.signIn(browser.Options{NoScript: true})
	waiting := func(want string) {
		t.Helper()
		if answer := r.must("GET", "/v1/queues/email", nil); !strings.Contains(answer, `"waiting":`+want) {
			t.Errorf("not %s wait: %s", want, answer)
		}
	}
	p.Go(r.url("/queues/email/jobs?lane=" + "%3Cscript%3E"))
	p.Click(".actions .ask > summary")
	p.Click(".actions .do .button")
	if says := p.Text("button[name=_counted]"); says != "Purge all: 7 jobs" {
		t.Errorf("the button says %q", says)
	}
	waiting("12")
	p.Click("button[name=_counted]")
	p.Text("#jobs .none")
	waiting("5")
	p.Click(".actions .ask > summary")
	p.Click(".actions .do .button")
	if says := p.Text("main"); !strings.Contains(says, "No jobs match") {
		t.Errorf("without jobs, the page says %q", says)
	}
	p.Fine()
}

// Roles apply per queue.
func TestRolesApplyPerQueue(t *testing.T) {
	r := newRig(t)
	made := r.must("POST", "/v1/tokens", fields{"grants": []fields{
		{"role": "view"}, {"role": "payloads", "prefix": "email*"}, {"role": "operate", "prefix": "email*"},
	}})
	for _, queue := range []string{"email", "sms"} {
		r.queue(queue, fields{"rate": "1/h"})
		r.must("POST", "/v1/queues/"+queue+"/jobs", fields{"id": "a", "payload": "what it says"})
	}
	r.secret = between(t, made, `"secret":"`, `"`)
	p := r.signIn(browser.Options{})
	for queue, may := range map[string]bool{"email": true, "sms": false} {
		p.Go(r.url("/queues/" + queue + "/jobs/a"))
		says := p.Text("main")
		if strings.Contains(says, "what it says") != may || strings.Contains(says, "need the payloads role") == may {
			t.Errorf("%s: payload: %q", queue, says)
		}
		p.Go(r.url("/queues/" + queue))
		if disabled := browser.Value[bool](p, `document.querySelector(".actions .do .button").disabled`); disabled == may {
			t.Errorf("%s: to pause it is disabled: %v", queue, disabled)
		}
	}
	p.Fine()
}

// Forbidden actions are disabled, and refused if sent anyway.
func TestForbiddenActions(t *testing.T) {
	r := newRig(t)
	r.queue("email", nil)
	r.jobs("email", 1, nil)
	made := r.must("POST", "/v1/tokens", fields{"grants": []fields{{"role": "view"}}})
	operator := r.secret
	r.secret = between(t, made, `"secret":"`, `"`)
	p := r.signIn(browser.Options{})
	r.secret = operator
	p.Go(r.url("/queues/email"))
	p.Until(`document.querySelector(".actions .do .button").disabled`)
	status := browser.Value[int](p, `fetch("/console/api/v1/queues/email/pause", {method: "POST"}).then((a) => a.status)`)
	if status != 403 {
		t.Errorf("pausing without the role answers %d", status)
	}
	p.Wrong() // that
	id := between(t, r.must("GET", "/v1/queues/email/jobs?state=waiting", nil), `"id":"`, `"`)
	p.Go(r.url("/queues/email/jobs/" + id))
	if says := p.Text("main"); !strings.Contains(says, "need the payloads role") {
		t.Errorf("payload: %q", says)
	}
	p.Go(r.url("/tokens"))
	if says := p.Text("#tokens"); says != "You need the admin role to see tokens and subjects." {
		t.Errorf("a user without the admin role sees tokens: %q", says)
	}
	p.Go(r.url("/audit"))
	if says := p.Text("main"); !strings.Contains(says, "403") {
		t.Errorf("/audit says %q", says)
	}
	p.Wrong() // the answer of 403
}

// A token is shown once, at its creation.
func TestTokenIsCreated(t *testing.T) {
	r := newRig(t)
	p := r.signIn(browser.Options{})
	p.Go(r.url("/tokens"))
	p.Click(".head .ask > summary")
	p.Type(".ask input[name=note]", "for <i>ci</i>")
	// A refused form keeps its input.
	p.Type(".ask input[name=expires_in]", "soon")
	p.Click(".ask .do .button")
	p.Until(`document.querySelector("#said.bad")?.textContent.includes("duration")`)
	p.Until(`document.querySelector(".ask input[name=note]").value === "for <i>ci</i>"`)
	p.Wrong() // the answer of 400
	browser.Value[bool](p, `(document.querySelector(".ask input[name=expires_in]").value = "720h", true)`)
	p.Click(".ask .do .button")
	secret := p.Text(".secret code")
	if len(secret) < 20 || strings.ContainsAny(secret, "{ \"") {
		t.Errorf("the token is shown as %q", secret)
	}
	if copies := browser.Value[string](p, `document.querySelector(".secret [data-copy]").dataset.copy`); copies != secret {
		t.Errorf("the button copies %q instead of %q", copies, secret)
	}
	p.Click("main a.button")
	p.Until(`document.querySelector("#tokens")?.textContent.includes("for <i>ci</i>")`)
	p.Fine()
}

// Without JavaScript, a refused form is shown again with its input.
func TestTokenIsCreatedWithoutJavaScript(t *testing.T) {
	r := newRig(t)
	p := r.signIn(browser.Options{NoScript: true})
	p.Go(r.url("/tokens"))
	p.Click(".head .ask > summary")
	p.Type(".ask input[name=note]", "for <i>ci</i>")
	p.Type(".ask input[name=expires_in]", "soon")
	p.Click(".ask .do .button")
	if says := p.Text("#detail"); !strings.Contains(says, "must be a duration") {
		t.Errorf("the page says %q", says)
	}
	p.Wrong() // the answer of 400
	p.Until(`document.querySelector(".fields input[name=note]").value === "for <i>ci</i>"`)
	browser.Value[bool](p, `(document.querySelector(".fields input[name=expires_in]").value = "720h", true)`)
	p.Click(".fields .do .button")
	p.Text(".secret code")
	p.Click("main a.button")
	p.Until(`document.querySelector("#tokens")?.textContent.includes("for <i>ci</i>")`)
	p.Fine()
}

// The current revision offers no rollback to itself.
func TestRollbackIsOnlyToEarlierRevisions(t *testing.T) {
	r := newRig(t)
	r.queue("email", nil)
	r.queue("email", fields{"rate": "20/s"})
	r.must("POST", "/v1/queues/email/pause", fields{})
	p := r.signIn(browser.Options{})
	p.Go(r.url("/queues/email/changes"))
	for row, want := range []bool{false, false, true} { // paused, updated, created
		may := fmt.Sprintf(`Boolean(document.querySelectorAll("tbody tr")[%d].querySelector(".acts .action"))`, row)
		if got := browser.Value[bool](p, may); got != want {
			t.Errorf("row %d offers a rollback: %v", row, got)
		}
	}
	p.Fine()
}

// The page of a queue shows that the queue was deleted.
func TestQueueIsDeletedWhileItIsOpen(t *testing.T) {
	r := newRig(t)
	r.queue("email", nil)
	p := r.signIn(browser.Options{})
	p.Go(r.url("/queues/email"))
	r.must("DELETE", "/v1/queues/email", nil)
	p.Until(`document.body.textContent.includes("unknown_queue") || document.querySelector("#said.bad")`)
	p.Wrong() // the answers of 404
}

// Large payloads are cut, and binary payloads shown as a dump.
func TestLargeAndBinaryJobs(t *testing.T) {
	r := newRig(t)
	r.queue("email", fields{"rate": "1/h"})
	p := r.signIn(browser.Options{})
	for _, c := range []struct{ payload, says string }{
		{`"` + strings.Repeat("x", 1_000_000) + `"`, "truncated"},
		{"", "00000000  89 50"},
	} {
		body := fields{"payload_base64": "iVBORwA="}
		if c.payload != "" {
			body = fields{"payload": strings.Trim(c.payload, `"`)}
		}
		id := between(t, r.must("POST", "/v1/queues/email/jobs", body), `"id":"`, `"`)
		p.Go(r.url("/queues/email/jobs/" + id))
		if says := p.Text("main"); !strings.Contains(says, c.says) {
			t.Errorf("the page says %.300q", says)
		}
	}
	p.Fine()
}

// Lanes are sorted by depth, and link to their jobs.
func TestLanesOfAQueue(t *testing.T) {
	r := newRig(t)
	r.queue("email", fields{"rate": "1/m"})
	r.jobs("email", 6, fields{"lane": "<script>"})
	r.jobs("email", 2, fields{"lane": "small"})
	p := r.signIn(browser.Options{NoScript: true})
	p.Go(r.url("/queues/email"))
	says := p.Text(".lanes tbody tr:first-child")
	if !strings.Contains(says, "<script>") || !strings.Contains(says, "6 · 75 %") {
		t.Errorf("the first lane is %q", says)
	}
	p.Click(".lanes a")
	p.Text("#jobs tbody tr:nth-child(6)")
	r.queue("llm", fields{
		"rate": "1/h", "estimate": fields{"tokens": fields{"default": 50}},
		"lanes": fields{"limits": []fields{{"unit": "tokens", "rate": "100/m", "burst": 500}}},
	})
	r.jobs("llm", 2, fields{"lane": "tenant"})
	p.Go(r.url("/queues/llm/lanes"))
	if says := p.Text("#lanes tbody"); !strings.Contains(says, " of 500 tokens") {
		t.Errorf("the lanes are %q", says)
	}
	p.Fine()
}

// The page of a rule shows its busiest keys, and keeps them up to date.
func TestTopKeysOfARule(t *testing.T) {
	t.Parallel() // it mostly waits
	r := newRig(t)
	r.must("PUT", "/v1/rules/signup", fields{
		"algorithm": "fixed_window", "limit": 5, "period": "1h", "key": "{lane}",
	})
	p := r.signIn(browser.Options{})
	p.Go(r.url("/rules/signup"))
	if says := p.Text("#top"); !strings.Contains(says, "has not used the rule") {
		t.Errorf("for an unused rule, the page says %q", says)
	}
	takes := make([]fields, 20)
	for i := range takes {
		takes[i] = fields{"key": []string{"<script>", "b"}[min(i/15, 1)]}
	}
	r.must("POST", "/v1/rules/signup/take", fields{"takes": takes})
	p.Until(`document.querySelectorAll("#top tbody tr").length === 3`)
	for n, want := range []string{"<script>\n15 · 75 %\n15", "b\n5 · 25 %\n5", "<script>\n10 · 100 %\n10"} {
		got := browser.Value[string](p, fmt.Sprintf(
			`[...document.querySelectorAll("#top tbody tr")[%d].cells].map((c) => c.innerText.trim()).join("\n")`, n))
		if got != want {
			t.Errorf("row %d says %q, want %q", n, got, want)
		}
	}
	p.Fine()
}
