package api_test

import (
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
)

// A rule of the operator's counts for each app what it appends, whatever the jobs say of themselves; in a stream too.
func TestRulesCountByTheProvenApp(t *testing.T) {
	s := secure(t, api.Options{})
	s.put("/v1/rules/ses.each", `{"algorithm":"meter","rate":"1/h","burst":2,"key":"{app}"}`)
	s.put("/v1/queues/ses", `{"rate":"100/s","rules":["ses.each"]}`)
	acme, beta := s.with("acme", auth.Produce), s.with("beta", auth.Produce)
	const posing = `{"payload":{"app":"beta"},"lane":"beta","headers":{"app":"beta"}}`
	s.by(acme, "POST", "/v1/queues/ses.acme/jobs", posing).want(t, 202)
	a := s.by(acme, "POST", "/v1/queues/ses.acme/jobs", posing+"\n"+posing+"\n", "Content-Type", "application/x-ndjson")
	a.want(t, 200)
	if want := `"status":429,"reason":"limit_reached"`; !strings.Contains(a.text, `"line":1,"status":202`) ||
		!strings.Contains(a.text, want) {
		t.Errorf("the stream was answered %s", a.text)
	}
	s.by(acme, "POST", "/v1/queues/ses.acme/jobs", posing).want(t, 429, "reason", "limit_reached", "rule", "ses.each")
	s.by(beta, "POST", "/v1/queues/ses.beta/jobs", posing).want(t, 202)
	s.by(s.operator, "POST", "/v1/queues/ses.acme/jobs", posing).want(t, 202)
	s.by(s.operator, "POST", "/v1/rules/ses.each/peek", `{"key":"-"}`).want(t, 200, "remaining", 0)
	s.by(s.operator, "POST", "/v1/rules/ses.each/peek", `{"key":"acme"}`).want(t, 200, "allowed", false)
}
