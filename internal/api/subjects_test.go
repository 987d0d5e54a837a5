package api_test

import (
	"net/url"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
)

// A subject has whatever name its way in gives it, slashes and all.
func TestSubjectsOverHTTP(t *testing.T) {
	s := secure(t, api.Options{})
	for _, name := range []string{
		"unix:1000", "cert:billing.acme.example", "cert:spiffe://acme.example/ns/prod//x/../y", "oidc:cluster#system:ns:a/b",
		"oidc:ci#repo:acme/web:ref:refs/heads/main?x=%2F",
	} {
		path := "/v1/subjects/" + url.PathEscape(name)
		s.by(s.operator, "PUT", path, `{"app":"acme","grants":[{"role":"view"}]}`).
			want(t, 200, "name", name, "app", "acme")
		s.by(s.operator, "GET", path, "").want(t, 200, "name", name)
		s.by(s.with("acme", auth.Admin), "GET", path, "").want(t, 200, "name", name)
		s.by(s.with("beta", auth.Admin), "GET", path, "").want(t, 404, "reason", "unknown_subject")
		s.by(s.with("acme", auth.Admin), "PUT", path, `{"app":"acme","grants":[{"role":"admin"}]}`).want(t, 403)
	}
	if got := names(s.by(s.operator, "GET", "/v1/subjects?app=acme", ""), "subjects"); len(got) != 5 {
		t.Errorf("the subjects of acme: %v", got)
	}
	s.by(s.operator, "PUT", "/v1/subjects/root", `{"grants":[{"role":"view"}]}`).want(t, 400, "field", "name")
	s.by(s.operator, "PUT", "/v1/subjects/unix:1", `{"name":"unix:2","grants":[{"role":"view"}]}`).
		want(t, 400, "field", "name")
	s.by(s.operator, "DELETE", "/v1/subjects/unix:1000", "").want(t, 204)
	s.by(s.operator, "DELETE", "/v1/subjects/unix:1000", "").want(t, 404, "reason", "unknown_subject")
}
