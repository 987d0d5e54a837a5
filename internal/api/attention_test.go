package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/queue"
)

// troubles are the problems in an answer: verdict, check and queue.
func troubles(t *testing.T, a *answer) (list []map[string]any, brief string) {
	t.Helper()
	a.want(t, 200)
	all, _ := a.body["problems"].([]any)
	for _, each := range all {
		fields, _ := each.(map[string]any)
		list = append(list, fields)
		brief += fmt.Sprintf(" %v:%v:%v", fields["verdict"], fields["check"], fields["queue"])
	}
	return list, strings.TrimSpace(strings.ReplaceAll(brief, "<nil>", ""))
}

func TestAttention(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, e queue.Engine) {
		_, read := surveyed(t, f, e)
		const target = `{"rate":"10/s","deliver":{"http":{"url":"https://example.com"}}}`
		_, brief := troubles(t, f.do("GET", "/v1/attention", ""))
		if brief != "warning:drainers:" {
			t.Errorf("without queues: %s", brief)
		}
		f.do("PUT", "/v1/queues/a", `{"rate":"10/s","capacity":1,"pull":true}`).want(t, 201)
		for _, name := range []string{"b", "b.c", "d"} {
			f.do("PUT", "/v1/queues/"+name, target).want(t, 201)
		}
		for _, name := range []string{"a", "b.c", "d"} {
			f.do("POST", "/v1/queues/"+name+"/jobs", `{"payload":1,"id":"1"}`).want(t, 202)
		}
		f.do("POST", "/v1/queues/b/pause", `{"reason":"why not"}`).want(t, 200)
		read()
		all, brief := troubles(t, f.do("GET", "/v1/attention", ""))
		if brief != "wrong:drainers: warning:no_worker:a warning:parent_paused:b.c warning:full:a" {
			t.Fatalf("the problems are %s", brief)
		}
		if text := all[0]["text"]; text != "no drainer is running, but jobs wait in d" {
			t.Errorf("the drainers: %s", text)
		}
		paused := all[2]
		fix, _ := paused["fix"].(map[string]any)
		if paused["text"] != "b.c holds 1 job: its parent b is paused" || paused["reason"] != "why not" ||
			paused["since"] == nil || fix["action"] != "resume_parent" || fix["queue"] != "b" ||
			fix["command"] != "penstock queue resume b" {
			t.Errorf("the paused parent: %v", paused)
		}
		f.do("GET", "/v1/attention", "").want(t, 200, "wrong", 1, "warnings", 3, "next", nil)
		if _, brief := troubles(t, f.do("GET", "/v1/attention?limit=2&offset=1", "")); brief !=
			"warning:no_worker:a warning:parent_paused:b.c" {
			t.Errorf("the second and third problem: %s", brief)
		}
		f.do("GET", "/v1/attention?limit=2&offset=1", "").want(t, 200, "wrong", 1, "warnings", 3, "next", 3)
		f.do("GET", "/v1/attention?offset=9", "").want(t, 200, "wrong", 1, "warnings", 3, "next", nil)
		if _, brief := troubles(t, f.do("GET", "/v1/attention?queue=d", "")); brief != "wrong:drainers:" {
			t.Errorf("of d: %s", brief)
		}
		if _, brief := troubles(t, f.do("GET", "/v1/attention?queue=b.c", "")); brief != "warning:parent_paused:b.c" {
			t.Errorf("of b.c: %s", brief)
		}
		f.do("GET", "/v1/attention?offset=-1", "").want(t, 400, "field", "offset")
		f.do("GET", "/v1/attention?limit=0", "").want(t, 400, "field", "limit")

		// The overview shows the worst verdict of each queue.
		rows, _ := rowsOf(t, f.do("GET", "/v1/overview", ""))
		for n, want := range []any{"warning", nil, "warning", "wrong"} {
			if rows[n]["verdict"] != want {
				t.Errorf("the verdict of %v is %v, want %v", rows[n]["name"], rows[n]["verdict"], want)
			}
		}

		// Each refusal counts, once the survey has seen it.
		f.do("POST", "/v1/queues/a/jobs", `{"payload":1,"id":"2"}`).want(t, 429)
		read()
		if _, brief := troubles(t, f.do("GET", "/v1/attention", "")); !strings.Contains(brief, "wrong:refusing:a") {
			t.Errorf("after a refusal: %s", brief)
		}
	})
}

// Callers see the problems of their own queues. Of a foreign parent they see that it is paused, but not why.
func TestAttentionHidesWhatIsForeign(t *testing.T) {
	s := secure(t, api.Options{})
	s.by(s.operator, "POST", "/v1/queues/ses/pause", `{"reason":"secret"}`).want(t, 200)
	for _, name := range []string{acmeChild, betaQueue} {
		s.by(s.operator, "POST", "/v1/queues/"+name+"/jobs", `{"payload":1}`).want(t, 202)
	}
	acme := s.by(s.token("acme", auth.Grant{Role: auth.View}), "GET", "/v1/attention", "")
	if strings.Contains(acme.text, "secret") || strings.Contains(acme.text, betaQueue) ||
		!strings.Contains(acme.text, acmeChild+" holds 1 job: its parent ses is paused") {
		t.Errorf("acme sees %s", acme.text)
	}
	s.by(s.token("acme", auth.Grant{Role: auth.View}), "GET", "/v1/attention?queue="+betaQueue, "").want(
		t, 200, "problems", []any{}, "wrong", 0, "warnings", 0,
	)
	operator := s.by(s.operator, "GET", "/v1/attention", "")
	if !strings.Contains(operator.text, "secret") || !strings.Contains(operator.text, betaQueue) {
		t.Errorf("the operator sees %s", operator.text)
	}
}

// The answer about a rule names queues of other groups, too.
func TestRuleNamesQueuesOfOtherGroups(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, e queue.Engine) {
		_, read := surveyed(t, f, e)
		f.do("PUT", "/v1/rules/signup", `{"algorithm":"gap","period":"1s"}`).want(t, 201)
		for _, name := range []string{"sms", "signup", "email"} {
			f.do("PUT", "/v1/queues/"+name, `{"rate":"10/s","pull":true,"rules":["signup"]}`).want(t, 201)
		}
		read()
		want := []any{"email", "signup", "sms"}
		f.do("GET", "/v1/rules/signup", "").want(t, 200, "queues", want)
		list := f.do("GET", "/v1/rules", "")
		list.want(t, 200)
		if rule, _ := list.body["rules"].([]any)[0].(map[string]any); fmt.Sprint(rule["queues"]) != fmt.Sprint(want) {
			t.Errorf("the list says %v", rule)
		}
		f.do("PUT", "/v1/queues/sms", `{"rate":"10/s","pull":true}`).want(t, 200)
		read()
		f.do("GET", "/v1/rules/signup", "").want(t, 200, "queues", []any{"email", "signup"})
	})
}
