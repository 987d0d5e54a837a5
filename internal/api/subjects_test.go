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
		made := s.by(s.operator, "PUT", path, `{"app":"acme","grants":[{"role":"view"}]}`)
		made.want(t, 201, "name", name, "app", "acme")
		s.by(s.operator, "GET", made.header.Get("Location"), "").want(t, 200, "name", name)
		s.by(s.operator, "PUT", path, `{"app":"acme","grants":[{"role":"view"}],"expires":"2099-01-02T03:04:05Z"}`).
			want(t, 200, "name", name, "expires", "2099-01-02T03:04:05Z")
		s.by(s.operator, "GET", path, "").want(t, 200, "name", name)
		s.by(s.with("acme", auth.Admin), "GET", path, "").want(t, 200, "name", name)
		s.by(s.with("beta", auth.Admin), "GET", path, "").want(t, 404, "reason", "unknown_subject")
		s.by(s.with("acme", auth.Admin), "PUT", path, `{"app":"acme","grants":[{"role":"admin"}]}`).want(t, 403)
	}
	if got := names(s.by(s.operator, "GET", "/v1/subjects?app=acme", ""), "subjects"); len(got) != 5 {
		t.Errorf("the subjects of acme: %v", got)
	}
	s.by(s.operator, "PUT", "/v1/subjects/unix:7", `{"grants":[{"role":"view"}]}`).want(t, 201)
	if got := names(s.by(s.operator, "GET", "/v1/subjects", ""), "subjects"); len(got) != 6 {
		t.Errorf("all subjects: %v", got)
	}
	if got := names(s.by(s.with("acme", auth.Admin), "GET", "/v1/subjects", ""), "subjects"); len(got) != 5 {
		t.Errorf("without a name acme's admin sees %v", got)
	}
	if got := names(s.by(s.with("beta", auth.Admin), "GET", "/v1/subjects", ""), "subjects"); len(got) != 0 {
		t.Errorf("beta's admin sees %v", got)
	}
	s.by(s.operator, "PUT", "/v1/subjects/unix:8", `{"grants":[{"role":"view"}],"expires":"2001-01-02T03:04:05Z"}`).
		want(t, 400, "field", "expires")
	s.by(s.operator, "PUT", "/v1/subjects/unix:8", `{"grants":[{"role":"view"}],"expires":"soon"}`).want(t, 400)
	s.by(s.operator, "PUT", "/v1/subjects/root", `{"grants":[{"role":"view"}]}`).want(t, 400, "field", "name")
	s.by(s.operator, "PUT", "/v1/subjects/unix:1", `{"name":"unix:2","grants":[{"role":"view"}]}`).
		want(t, 400, "field", "name")
	s.by(s.operator, "DELETE", "/v1/subjects/unix:1000", "").want(t, 204)
	s.by(s.operator, "DELETE", "/v1/subjects/unix:1000", "").want(t, 404, "reason", "unknown_subject")
}
