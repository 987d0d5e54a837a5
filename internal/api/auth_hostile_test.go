package api_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/engines"
	"github.com/penstock/penstock/queue"
)

// Names that look like an app's own, or lead to another's, are nobody's.
func TestNamesThatLookAlike(t *testing.T) {
	s := secure(t, api.Options{})
	acme := s.with("acme", auth.Admin)
	whole := func() (all []string) {
		for _, q := range s.by(s.operator, "GET", "/v1/queues", "").body["queues"].([]any) {
			q := q.(map[string]any)
			all = append(all, fmt.Sprint(q["name"], q["revision"], q["stats"].(map[string]any)["waiting"]))
		}
		return all
	}
	before := whole()
	for _, name := range []string{
		"ACME-mail", "Acme-Mail", "acme%E2%80%90mail", "acme-m%D0%B0il", "%D0%B0cme-mail", "acme-mail%00", "acme-mail%20",
		"%20acme-mail", "acme-mail.", "acme-mail..x", "acme-mail.x.y", ".acme-mail", "acme-mail%2e", "acme-mail%2Fx",
		"acme-mail%2f..%2fbeta-mail", "..%2fbeta-mail", "%2e%2e", "%2e%2e%2fbeta-mail", "beta-mail", "beta%2dmail",
		"b%65ta-mail", "ses", "ses.", "ses.acme.x", "ses.acmex", "ses.beta", "sesxacme", "acme", "acm", "*", "acme-*",
		"acme-mail%0d%0aX: y", "acme-mail;beta-mail", "acme-mail,beta-mail", "acme-mail%5c..%5cbeta-mail",
	} {
		for _, c := range []struct{ method, more, body string }{
			{"GET", "", ""},
			{"PUT", "", `{"rate":"1/s"}`},
			{"DELETE", "?force=true", ""},
			{"POST", "/jobs", `{"payload":1}`},
			{"POST", "/purge", "{}"},
			{"GET", "/changes", ""},
		} {
			req, err := http.NewRequest(c.method, s.url, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			req.URL.Opaque = "//" + req.URL.Host + "/v1/queues/" + strings.ReplaceAll(name, "\r", "") + c.more
			req.Header.Set("Authorization", "Bearer "+acme)
			req.Header.Set("Content-Type", "application/json")
			resp, err := s.client.Do(req)
			if err != nil {
				continue // it is no URL
			}
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusBadRequest {
				t.Errorf("%s %s%s: %d %s", c.method, name, c.more, resp.StatusCode, text)
			}
		}
	}
	if after := whole(); !slices.Equal(after, before) {
		t.Errorf("%v was, and %v is", before, after)
	}
}

// A name in the body, the query or a header is no way around the one in the path.
func TestIdentityIsNotInput(t *testing.T) {
	s := secure(t, api.Options{})
	acme := s.with("acme", auth.Admin)
	s.by(acme, "PUT", "/v1/queues/acme-new", `{"name":"beta-mail","rate":"1/s"}`).want(t, 400, "field", "name")
	s.by(acme, "POST", "/v1/queues/acme-mail/jobs", `{"queue":"beta-mail","payload":1}`).want(t, 400)
	s.by(acme, "POST", "/v1/queues/acme-mail/jobs", `{"app":"beta","payload":1}`).
		want(t, 400, "reason", "unknown_field")
	s.by(acme, "POST", "/v1/queues/acme-mail/jobs", `{"payload":1}`, "X-Forwarded-User", "root", "Penstock-App", "beta",
		"X-Http-Method-Override", "DELETE").want(t, 202)
	s.by(acme, "GET", "/v1/whoami?app=beta", "").want(t, 200, "app", "acme")
	s.by(acme, "POST", "/v1/tokens", `{"app":"beta","grants":[{"role":"view"}]}`).want(t, 404, "reason", "unknown_app")
	s.by(acme, "GET", "/v1/tokens?app=beta", "").want(t, 404, "reason", "unknown_app")
	s.by(acme, "GET", "/v1/tokens?app=none", "").want(t, 404, "reason", "unknown_app")
	s.by(acme, "GET", "/v1/subjects?app=beta", "").want(t, 404, "reason", "unknown_app")
	s.by(acme, "GET", "/v1/apps/beta", "").want(t, 404, "reason", "unknown_app")
	s.by(acme, "POST", "/v1/tokens", `{"grants":[{"role":"admin","prefix":"beta-*"}]}`).want(t, 400)
	s.by(acme, "PUT", "/v1/apps/acme", `{"prefixes":["*"]}`).want(t, 403, "reason", "forbidden")
	s.by(s.with("acme", auth.Produce), "POST", "/v1/tokens", `{"grants":[{"role":"produce"}]}`).want(t, 403)
}

// A queue of an app asks no rule of another's, nor has it a foreign parent but the one that its prefix says; its target
// names what the app may.
func TestForeignThingsInASpec(t *testing.T) {
	s := secure(t, api.Options{})
	acme := s.with("acme", auth.Configure)
	const own = "/v1/queues/acme-mail"
	foreign := s.by(acme, "PUT", own, `{"rate":"1/s","pull":true,"rules":["beta-rule"]}`)
	foreign.want(t, 400, "field", "rules.0")
	none := s.by(acme, "PUT", own, `{"rate":"1/s","pull":true,"rules":["none-rule"]}`)
	if got := strings.ReplaceAll(foreign.body["detail"].(string), "beta-rule", "none-rule"); got != none.body["detail"] {
		t.Errorf("a foreign rule: %s, and none: %s", got, none.body["detail"])
	}
	s.put("/v1/rules/ses.all", `{"algorithm":"meter","rate":"1/s"}`)
	s.by(acme, "PUT", "/v1/queues/ses.acme", `{"rate":"1/s","rules":["ses.all"]}`).want(t, 400, "field", "rules.0")
	s.by(acme, "PUT", own, `{"rate":"1/s","pull":true,"rules":["acme-rule"]}`).want(t, 200)
	s.by(acme, "PUT", "/v1/queues/ses.other", `{"rate":"1/s"}`).want(t, 404, "reason", "unknown_queue")
	s.by(acme, "PUT", "/v1/queues/beta-mail.acme", `{"rate":"1/s"}`).want(t, 404, "reason", "unknown_queue")
	s.by(acme, "PUT", "/v1/queues/acme-web.x", `{"rate":"1/s"}`) // its parent would be its own
	target := func(url, secret string) string {
		return `{"rate":"1/s","deliver":{"http":{"url":"` + url + `","headers":{"Authorization":"Bearer ${secret:` + secret +
			`}"}}}}`
	}
	s.by(acme, "PUT", "/v1/queues/acme-web", target("https://api.example.com/x", "acme-key")).want(t, 400)
	s.put("/v1/apps/acme", `{"prefixes":["acme-*","ses.acme"],"hosts":["api.example.com"],"secrets":["acme-*"]}`)
	s.by(acme, "PUT", "/v1/queues/acme-web", target("https://api.example.com/x", "acme-key")).want(t, 201)
	s.by(acme, "PUT", "/v1/queues/acme-web", target("https://beta.example.com/x", "acme-key")).want(t, 400)
	s.by(acme, "PUT", "/v1/queues/acme-web", target("https://api.example.com/x", "beta-key")).want(t, 400)
	// What the app could name before is no way to it either, and the operator is told that it would not be delivered.
	s.by(s.operator, "PUT", "/v1/queues/acme-web", target("https://beta.example.com/x", "acme-key")).
		want(t, 400, "field", "deliver.http.url")
	s.put("/v1/queues/acme-web", `{"rate":"2/s"}`)
	s.put("/v1/apps/acme", `{"prefixes":["acme-*","ses.acme"],"hosts":["other.example.com"],"secrets":["acme-*"]}`)
	s.by(acme, "POST", "/v1/queues/acme-web/rollback", "{}").want(t, 400)
}

// An app cannot find out which secrets there are for others, nor where they may go.
func TestHostileSecretNames(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"beta-key": "hunter2", "beta-key.allow": "api.example.com\nqueue: beta-*\n", "gamma-key": "hunter2",
		"gamma-key.allow": "gamma.example.com:8443\n", "acme-key": "hunter2", "acme-key.allow": "api.example.com\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := secure(t, api.Options{ValidateTarget: app.ValidTarget(nil, secrets.Source{Dir: dir})})
	s.put("/v1/apps/acme", `{"prefixes":["acme-*"],"hosts":["api.example.com"],"secrets":["acme-*"]}`)
	acme := s.with("acme", auth.Configure)
	put := func(host, secret string) *answer {
		return s.by(acme, "PUT", "/v1/queues/acme-web", `{"rate":"1/s","deliver":{"http":{"url":"https://`+host+
			`/x","headers":{"X-Api-Key":"${secret:`+secret+`}"}}}}`)
	}
	none := put("api.example.com", "none")
	for _, secret := range []string{"beta-key", "gamma-key", "ALLOW"} {
		a := put("api.example.com", secret)
		a.want(t, 400, "field", "deliver.http.headers.X-Api-Key")
		if got := strings.ReplaceAll(a.body["detail"].(string), secret, "none"); got != none.body["detail"] {
			t.Errorf("a foreign secret: %s, and none: %s", got, none.body["detail"])
		}
		if a = put("gamma.example.com:8443", secret); a.body["field"] != "deliver.http.url" {
			t.Errorf("a foreign host: %s", a.text)
		}
	}
	put("10.0.0.1", "none").want(t, 400, "detail", put("10.0.0.1", "beta-key").body["detail"])
	put("api.example.com", "acme-key").want(t, 201)
}

// What is another's stands in no list, figure, page of changes, export or error.
func TestForeignNamesAreNotTold(t *testing.T) {
	s := secure(t, api.Options{})
	acme, view := s.with("acme", auth.Admin), s.with("", auth.View)
	for _, spec := range []string{`{"rate":"1/s"}`, `{"rate":"2/s"}`} {
		s.put("/v1/queues/acme", spec) // between acme-mail and its like, and not the app's
	}
	s.by(s.operator, "POST", "/v1/queues/ses/pause", `{"reason":"beta has not paid"}`, "Penstock-By", "beta-boss").
		want(t, 200)
	s.put("/v1/rules/ses.shared", `{"algorithm":"meter","rate":"1000/s","burst":10}`)
	for _, path := range []string{
		"/v1/queues", "/v1/queues?limit=1", "/v1/queues?after=a", "/v1/queues?after=acme-mail", "/v1/queues?after=beta",
		"/v1/queues/acme-mail", "/v1/queues/ses.acme", "/v1/queues/acme-mail/changes", "/v1/queues/ses.acme/changes",
		"/v1/queues/acme-mail/jobs?state=waiting", "/v1/queues/acme-mail/jobs/j1", "/v1/rules", "/v1/rules?limit=1",
		"/v1/rules/acme-rule", "/v1/rules/acme-rule/changes", "/v1/dead", "/v1/dead?queue=beta-mail", "/v1/dead?after=b",
		"/v1/apps", "/v1/tokens", "/v1/subjects", "/v1/audit", "/v1/audit?order=oldest", "/v1/audit?app=beta",
		"/v1/audit?name=beta-mail", "/v1/whoami", "/readyz", "/v1/drainers", "/metrics",
	} {
		a := s.by(acme, "GET", path, "")
		asked := strings.NewReplacer("beta-mail", "", "beta", "").Replace
		text := a.text
		if strings.Contains(path, "beta") {
			text = asked(text) // it may say what was asked
		}
		for _, word := range []string{"beta", "not paid", `"name":"acme","rate`, "ses.shared"} {
			if strings.Contains(text, word) {
				t.Errorf("GET %s tells %q: %s", path, word, text)
			}
		}
	}
	s.by(view, "GET", "/metrics", "").want(t, 200)
	if view := s.with("acme", auth.View); !strings.Contains(
		s.by(view, "GET", "/metrics", "").text, `penstock_queue_capacity{app="acme",queue="acme-mail"} `,
	) {
		t.Error("acme does not see the metrics of its own queues")
	}
	s.by(s.with("acme", auth.Produce), "GET", "/metrics", "").want(t, 403)
	s.by(acme, "GET", "/v1/drainers", "").want(t, 403)
	if got := names(s.by(acme, "GET", "/v1/queues", ""), "queues"); !slices.Equal(
		got,
		[]string{"acme-mail", "ses.acme"},
	) {
		t.Errorf("the queues of acme: %v", got)
	}
	if got := names(s.by(acme, "GET", "/v1/rules", ""), "rules"); !slices.Equal(got, []string{"acme-rule"}) {
		t.Errorf("the rules of acme: %v", got)
	}
	var walked []string
	for after := ""; ; {
		page := s.by(acme, "GET", "/v1/queues?limit=1&after="+after, "")
		walked = append(walked, names(page, "queues")...)
		next, _ := page.body["next"].(string)
		if next == "" {
			break
		}
		after = next
	}
	if !slices.Equal(walked, []string{"acme-mail", "ses.acme"}) {
		t.Errorf("page by page: %v", walked)
	}
	s.by(s.token("acme", auth.Grant{Role: auth.View, Prefix: "acme-*"}), "GET", "/v1/queues/ses.acme", "").
		want(t, 403, "reason", "forbidden")
}

func names(a *answer, list string) (all []string) {
	for _, item := range a.body[list].([]any) {
		all = append(all, item.(map[string]any)["name"].(string))
	}
	return all
}

// A session that was stolen ends after 12 hours or when somebody ends it, makes no other one, and shows nothing of the
// token that it stands for.
func TestHostileSessions(t *testing.T) {
	engines.Each(t, func(t *testing.T, e queue.Engine) {
		s := secureOver(t, e, api.Options{})
		acme := s.with("acme", auth.View)
		opened := s.by(acme, "POST", "/v1/session", "")
		opened.want(t, 201, "note", "session of the console")
		stolen := opened.body["secret"].(string)
		ends, err := time.Parse(time.RFC3339, opened.body["expires"].(string))
		if in := time.Until(ends); err != nil || in > 12*time.Hour || in < 12*time.Hour-time.Minute {
			t.Errorf("it ends %v, in %v: %v", opened.body["expires"], in, err)
		}
		id := opened.body["id"].(string)
		if strings.Contains(stolen, acme) || opened.body["session_of"] == id {
			t.Errorf("it shows its token: %s", opened.text)
		}
		s.by(stolen, "GET", "/v1/whoami", "").want(t, 200, "session", id)
		s.by(stolen, "GET", "/v1/queues/acme-mail", "").want(t, 200)
		s.by(stolen, "GET", "/v1/queues/beta-mail", "").want(t, 404)
		s.by(stolen, "POST", "/v1/session", "").want(t, 400, "field", "Authorization")
		s.by(stolen, "POST", "/v1/queues/acme-mail/pause", "{}").want(t, 403)
		s.by(stolen, "POST", "/v1/tokens", `{"grants":[{"role":"view"}]}`).want(t, 403)
		s.by(s.with("acme", auth.Admin), "POST", "/v1/tokens/"+id+"/rotate", "{}").want(t, 400, "field", "token")
		s.by(s.with("beta", auth.Admin), "DELETE", "/v1/tokens/"+id, "").want(t, 404)
		s.by(acme, "DELETE", "/v1/session", "").want(t, 400, "field", "Authorization")
		s.by("", "POST", "/v1/session", "").want(t, 400)
		s.do("POST", "/v1/session", "").want(t, 401)
		s.do("POST", "/v1/session", "", "Cookie", "__Host-penstock-session="+stolen).want(t, 401)
		// A cookie with anything but a session proves nobody.
		for secret, valid := range map[string]bool{stolen: true, acme: false, s.operator: false} {
			r := httptest.NewRequestWithContext(auth.OfSession(t.Context()), "GET", "/", nil)
			r.Header.Set("Authorization", "Bearer "+secret)
			if who, err := s.authority.Identify(r); (err == nil) != valid {
				t.Errorf("a cookie proves %+v, %v", who, err)
			}
		}

		admin := s.with("acme", auth.Admin)
		if list := s.by(admin, "GET", "/v1/tokens", ""); !strings.Contains(list.text, `"id":"`+id+`"`) ||
			strings.Contains(list.text, stolen[len(stolen)-20:]) {
			t.Errorf("sessions are listed as %s", list.text)
		}
		s.by(admin, "DELETE", "/v1/tokens/"+id, "").want(t, 204)
		await.Until(t, "the session ends", func() bool { return s.by(stolen, "GET", "/v1/whoami", "").status == 401 })
		s.by(acme, "GET", "/v1/whoami", "").want(t, 200)

		own := s.by(acme, "POST", "/v1/session", "").body["secret"].(string)
		s.by(own, "DELETE", "/v1/session", "").want(t, 204)
		await.Until(t, "it is signed out", func() bool { return s.by(own, "GET", "/v1/whoami", "").status == 401 })
	})
}
