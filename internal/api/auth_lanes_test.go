package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
)

// foreignLane is one in which only beta has jobs.
const foreignLane = "their-customer"

// withForeignLane is an installation in which beta has 20 jobs in a lane, in a queue of its own and beside acme under a
// parent.
func withForeignLane(t *testing.T) (s *secured, acme string) {
	t.Helper()
	s = secure(t, api.Options{})
	beta := s.with("beta", auth.Admin)
	for _, name := range []string{"beta-mail", "ses.beta"} {
		for range 20 {
			s.by(beta, "POST", "/v1/queues/"+name+"/jobs", fmt.Sprintf(`{"payload":1,"lane":%q}`, foreignLane)).want(t, 202)
		}
		s.by(beta, "POST", "/v1/queues/"+name+"/jobs", fmt.Sprintf(`{"id":"gone","payload":1,"lane":%q}`, foreignLane)).
			want(t, 202)
		s.by(beta, "POST", "/v1/queues/"+name+"/jobs/gone/cancel", "").want(t, 200)
	}
	return s, s.with("acme", auth.Admin)
}

// A quote for a lane says the same whether another app has jobs in a lane of that name or nobody has, and a foreign
// queue has no quotes.
func TestForeignLanesInQuotes(t *testing.T) {
	s, acme := withForeignLane(t)
	s.put("/v1/queues/acme-mail", `{"rate":"1/s","pull":true,"lanes":{"rate":"1/m","capacity":10}}`)
	s.put("/v1/queues/ses.acme", `{"rate":"1/s","lanes":{"rate":"1/m","capacity":10}}`)
	for _, name := range []string{"acme-mail", "ses.acme"} {
		s.by(acme, "POST", "/v1/queues/"+name+"/jobs", `{"payload":1}`).want(t, 202)
		quote := func(lane string) string {
			a := s.by(acme, "POST", "/v1/queues/"+name+"/quote", fmt.Sprintf(`{"jobs":15,"lane":%q,"rate":"5/s"}`, lane))
			a.want(t, 200, "fit", 10, "refused", 5)
			// Of instants, how far they lie behind the first: the clock goes on between two questions.
			var text strings.Builder
			for _, at := range []string{"now", "then"} {
				f := a.body[at].(map[string]any)
				instant := func(field string) time.Time {
					v, err := time.Parse(time.RFC3339Nano, f[field].(string))
					if err != nil {
						t.Fatal(field, err)
					}
					return v
				}
				first := instant("first_at")
				fmt.Fprintf(&text, "%s %v %v %v %v; ", at, f["rate"], f["expiring"], instant("drained_at").Sub(first),
					instant("last_at").Sub(first))
				if wait := time.Until(first); wait > 30*time.Second {
					t.Errorf("%s, lane %s: the first leaves in %v", name, lane, wait)
				}
			}
			return text.String()
		}
		if theirs, none := quote(foreignLane), quote("nobody's"); theirs != none {
			t.Errorf("%s: %s and %s", name, theirs, none)
		}
	}
	ask := fmt.Sprintf(`{"jobs":1,"lane":%q}`, foreignLane)
	foreign := s.by(acme, "POST", "/v1/queues/beta-mail/quote", ask)
	foreign.want(t, 404, "reason", "unknown_queue")
	none := s.by(acme, "POST", "/v1/queues/beta-none/quote", ask)
	if strings.ReplaceAll(foreign.body["detail"].(string), "mail", "none") != none.body["detail"] {
		t.Errorf("%s and %s", foreign.text, none.text)
	}
}

// What an app can take out of a store, page by page, has no lane of another's. The archive of a whole store is made by
// whoever has the store itself: no server offers one.
func TestForeignLanesInExports(t *testing.T) {
	s, acme := withForeignLane(t)
	for _, path := range []string{
		"/v1/audit", "/v1/audit?order=oldest", "/v1/queues", "/v1/overview", "/v1/history", "/v1/dead",
		"/v1/queues/acme-mail",
		"/v1/queues/ses.acme", "/v1/queues/ses.acme/changes", "/v1/queues/ses.acme/history",
		"/v1/queues/ses.acme/timetable?for=60s", "/v1/queues/ses.acme/jobs?state=waiting", "/v1/queues/ses.acme/jobs/gone",
		"/v1/queues/acme-mail/jobs?state=waiting&lane=" + foreignLane, "/v1/queues/beta-mail", "/v1/queues/beta-mail/history",
		"/v1/queues/beta-mail/timetable?for=60s", "/v1/queues/beta-mail/jobs?state=waiting", "/v1/queues/ses.beta/jobs/gone",
		"/v1/queues/beta-mail/changes", "/v1/queues/ses", "/v1/queues/ses/timetable?for=60s", "/v1/queues/beta-mail/lanes",
	} {
		if a := s.by(acme, "GET", path, ""); strings.Contains(a.text, foreignLane) {
			t.Errorf("GET %s tells of it: %s", path, a.text)
		}
	}
	if a := s.by(s.with("beta", auth.Admin), "GET", "/v1/queues/beta-mail/jobs?state=waiting", ""); !strings.Contains(
		a.text, foreignLane,
	) {
		t.Errorf("its own app does not see it: %s", a.text)
	}
	for _, token := range []string{acme, s.operator} {
		for _, path := range []string{"/v1/export", "/v1/queues/beta-mail/export", "/v1/store/export", "/v1/archive"} {
			s.by(token, "GET", path, "").want(t, 404)
		}
	}
}
