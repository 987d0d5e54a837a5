package api_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
)

// What jobs carry is shown only to whom it is granted.
func TestPayloadsNeedTheirRole(t *testing.T) {
	s := secure(t, api.Options{})
	view, both := s.with("acme", auth.View), s.with("acme", auth.View, auth.Payloads)
	const job, list = "/v1/queues/acme-mail/jobs/j1", "/v1/queues/acme-mail/jobs?state=waiting"
	for _, path := range []string{job, list} {
		if a := s.by(view, "GET", path, ""); a.status != 200 || strings.Contains(a.text, "secret text") {
			t.Errorf("GET %s: %d %s", path, a.status, a.text)
		}
	}
	s.by(view, "GET", list+"&payload=true", "").want(t, 403, "reason", "forbidden", "field", "payload")
	for _, path := range []string{job, list + "&payload=true"} {
		if a := s.by(both, "GET", path, ""); a.status != 200 || !strings.Contains(a.text, "secret text") {
			t.Errorf("GET %s with payloads: %d %s", path, a.status, a.text)
		}
	}
}

// A token in a URL is refused, and no token stands in an answer, a header, the log or a record.
func TestTokensAreNotShown(t *testing.T) {
	s := secure(t, api.Options{})
	good := s.with("acme", auth.Admin)
	secret := strings.Split(good, "_")[2]
	mistyped := good[:len(good)-1] + "!"
	unknown, _ := auth.NewToken()
	var seen []*answer
	for _, name := range []string{"access_token", "token"} {
		a := s.do("GET", "/v1/queues?"+name+"="+url.QueryEscape(good), "")
		a.want(t, 400, "reason", "token_in_url")
		both := s.by(good, "GET", "/v1/queues?"+name+"="+url.QueryEscape(good), "")
		both.want(t, 400, "reason", "token_in_url")
		seen = append(seen, a, both)
	}
	for _, c := range []struct {
		header string
		status int
		reason string
	}{
		{"Bearer " + mistyped, 401, "unauthenticated"},
		{"Bearer " + unknown, 401, "unauthenticated"},
		{"Bearer " + good + good, 401, "unauthenticated"},
		{"Bearer " + good[:20], 401, "unauthenticated"},
		{"Bearer " + good + " " + good, 400, "invalid_request"},
		{"Basic " + good, 400, "invalid_request"},
		{good, 400, "invalid_request"},
		{"Bearer", 400, "invalid_request"},
	} {
		for _, method := range []string{"GET", "PUT"} {
			a := s.do(
				method,
				"/v1/queues/acme-mail",
				map[string]string{"PUT": `{"rate":"1/s"}`}[method],
				"Authorization",
				c.header,
			)
			a.want(t, c.status, "reason", c.reason)
			if c.status == 401 && !strings.HasPrefix(a.header.Get("Www-Authenticate"), "Bearer ") {
				t.Errorf("no challenge: %v", a.header)
			}
			seen = append(seen, a)
		}
	}
	seen = append(
		seen,
		s.by(good, "GET", "/v1/whoami", ""),
		s.by(good, "GET", "/v1/tokens", ""),
		s.by(good, "GET", "/v1/audit", ""),
		s.by(good, "PUT", "/v1/queues/acme-mail", `{"rate":"no rate"}`),
		s.by(s.operator, "GET", "/v1/audit", ""),
	)
	made := s.by(good, "POST", "/v1/tokens", `{"grants":[{"role":"view"}],"expires_in":"1h","note":"for a test"}`)
	made.want(t, 201)
	fresh := strings.Split(made.body["secret"].(string), "_")[2]
	seen = append(seen, s.by(good, "GET", made.header.Get("Location"), ""))
	for _, a := range seen {
		for _, word := range []string{secret, fresh, secret[:20], "digest\":\"" + "x"} {
			if strings.Contains(a.text, word) || strings.Contains(fmt.Sprint(a.header), word) {
				t.Errorf("an answer shows a token: %s %v", a.text, a.header)
			}
		}
	}
	records, err := json.Marshal(s.entries())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{s.log.String(), string(records)} {
		if strings.Contains(text, secret[:20]) || strings.Contains(text, fresh[:20]) {
			t.Errorf("a token is in the log or in a record: %s", text)
		}
	}
}
