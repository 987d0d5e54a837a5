package httpio

import (
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/document"
)

// A problem about an unknown name has the request that creates it, unless nothing can have the name.
func TestUnknownNames(t *testing.T) {
	for _, c := range []struct {
		problem *Problem
		want    string
	}{
		{UnknownQueue("email"), `there is no queue "email"; PUT /v1/queues/email creates it`},
		{UnknownQueue("acme.mail"), `there is no queue "acme.mail"; PUT /v1/queues/acme.mail creates it`},
		{UnknownQueue("E mail"), `there is no queue "E mail"`},
		{UnknownQueue(""), `there is no queue ""`},
		{UnknownRule("otp"), `there is no rule "otp"; PUT /v1/rules/otp creates it`},
		{UnknownRule("../queues"), `there is no rule "../queues"`},
		{
			unknownDocument(&document.Missing{Kind: auth.KindApp, Name: "acme"}),
			`there is no app "acme"; PUT /v1/apps/acme creates it`,
		},
		{
			unknownDocument(&document.Missing{Kind: auth.KindSubject, Name: "oidc:ci#a/b"}),
			`there is no subject "oidc:ci#a/b"; PUT /v1/subjects/oidc:ci%23a%2Fb creates it`,
		},
		{
			unknownDocument(&document.Missing{Kind: auth.KindSubject, Name: strings.Repeat("x", document.MaxNameBytes+1)}),
			`there is no subject "` + strings.Repeat("x", 80) + `"... (`,
		},
		{
			unknownDocument(&document.Missing{Kind: auth.KindToken, Name: "4f1cq02mx7ab"}),
			`there is no token "4f1cq02mx7ab"; POST /v1/tokens creates one`,
		},
	} {
		whole := !strings.HasSuffix(c.want, "(")
		if got := c.problem.Detail; whole && got != c.want || !strings.HasPrefix(got, c.want) ||
			strings.Contains(got, "{") {
			t.Errorf("the detail is %s, want %s", got, c.want)
		}
	}
}
