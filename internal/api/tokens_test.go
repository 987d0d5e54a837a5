package api_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
)

// A token from its making to its end. Nobody gives more than he has.
func TestTokensOverHTTP(t *testing.T) {
	s := secure(t, api.Options{})
	admin := s.with("acme", auth.Admin)
	a := s.by(
		admin,
		"POST",
		"/v1/tokens",
		`{"grants":[{"role":"view","prefix":"acme-*"}],"expires_in":"1h","note":"shop"}`,
	)
	a.want(t, 201, "app", "acme", "note", "shop")
	if a.header.Get("Cache-Control") != "no-store" {
		t.Error("a proxy may keep the secret")
	}
	first := a.body["secret"].(string)
	s.by(first, "GET", "/v1/queues/acme-mail", "").want(t, 200)
	s.by(first, "GET", "/v1/queues/ses.acme", "").want(t, 403)
	path := a.header.Get("Location")
	b := s.by(admin, "POST", path+"/rotate", `{"keep":"1h"}`)
	b.want(t, 201, "note", "shop")
	second := b.body["secret"].(string)
	s.with("beta", auth.View)
	for query, want := range map[string]string{"": "acme beta", "?app=acme": "acme"} { // of the operator all
		all := s.by(s.operator, "GET", "/v1/tokens"+query, "")
		for _, app := range []string{"acme", "beta"} {
			if has := strings.Contains(all.text, `"app":"`+app+`"`); has != strings.Contains(want, app) {
				t.Errorf("tokens%s has those of %s: %v", query, app, has)
			}
		}
	}
	for _, token := range []string{first, second} {
		s.by(token, "GET", "/v1/whoami", "").want(t, 200, "app", "acme")
	}
	s.by(admin, "GET", path, "").want(t, 200, "replaced_by", b.body["id"])
	s.by(admin, "POST", path+"/rotate", "{}").want(t, 400)
	s.by(s.with("beta", auth.Admin), "DELETE", path, "").want(t, 404, "reason", "unknown_token")
	s.by(admin, "DELETE", path, "", "If-Match", `"1"`).want(t, 412, "reason", "revision_mismatch")
	s.by(admin, "DELETE", path, "").want(t, 204)
	s.by(first, "GET", "/v1/whoami", "").want(t, 401)
	s.by(second, "GET", "/v1/whoami", "").want(t, 200)
	c := s.by(admin, "POST", b.header.Get("Location")+"/rotate", "")
	c.want(t, 201)
	s.by(second, "GET", "/v1/whoami", "").want(t, 401)
	s.by(s.operator, "POST", "/v1/tokens", `{"app":"acme","grants":[{"role":"root"}]}`).want(t, 400)
	s.by(admin, "POST", "/v1/tokens", `{"grants":[{"role":"view"}],"expires_in":"-1h"}`).
		want(t, 400, "field", "expires_in")
	s.by(admin, "POST", "/v1/tokens", `{"grants":[]}`).want(t, 400, "field", "grants")
	part := s.token("acme", auth.Grant{Role: auth.Admin, Prefix: "acme-*"})
	s.by(part, "POST", "/v1/tokens", `{"grants":[{"role":"view"}]}`).want(t, 403)
	s.by(part, "POST", "/v1/tokens", `{"grants":[{"role":"view","prefix":"ses.acme"}]}`).want(t, 403)
	s.by(part, "POST", "/v1/tokens", `{"grants":[{"role":"view","prefix":"acme-mail"}]}`).want(t, 201)
	if list := s.by(admin, "GET", "/v1/tokens", "").text; strings.Contains(list, "digest") ||
		strings.Contains(list, "secret") {
		t.Errorf("the list shows %s", list)
	}
}

// The log tells what was made from what was changed.
func TestChangesOfAccessAreLogged(t *testing.T) {
	s := secure(t, api.Options{})
	for _, c := range []struct{ path, body, logged string }{
		{"/v1/apps/acme", `{"prefixes":["acme-*","ses.acme"],"note":"x"}`, "app=acme"},
		{"/v1/subjects/unix:1001", `{"app":"acme","grants":[{"role":"view"}]}`, "subject=unix:1001"},
	} {
		s.put(c.path, c.body)
		s.put(c.path, c.body)
		created, changed := "msg=change what=created "+c.logged, "msg=change what=changed "+c.logged
		if log := s.log.String(); strings.Count(log, created) != 1 || strings.Count(log, changed) == 0 {
			t.Errorf("%s: %s", c.path, log)
		}
	}
}

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
