package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/test/attend"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/rules"
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
	without := s.do("GET", "/v1/queues", "")
	without.want(t, 401, "reason", "unauthenticated")
	if !strings.Contains(without.text, "send Authorization: Bearer TOKEN; the clients and the penstock command read "+
		"the token from PENSTOCK_TOKEN, or from the file in PENSTOCK_TOKEN_FILE") {
		t.Errorf("it does not say how to authenticate: %s", without.text)
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

// asks counts what a store is asked about queues, rules and jobs.
type asks struct {
	queue.Engine
	n atomic.Int64
}

func (a *asks) Get(ctx context.Context, name string) (queue.Info, error) {
	a.n.Add(1)
	return a.Engine.Get(ctx, name)
}

func (a *asks) Job(ctx context.Context, name, id string) (queue.JobInfo, error) {
	a.n.Add(1)
	return a.Engine.Job(ctx, name, id)
}

func (a *asks) Append(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	a.n.Add(1)
	return a.Engine.Append(ctx, jobs)
}

func (a *asks) Rule(ctx context.Context, name string) (rules.Info, error) {
	a.n.Add(1)
	return a.Engine.Rule(ctx, name)
}

func (a *asks) Take(ctx context.Context, name string, takes []rules.Take) ([]rules.Taken, error) {
	a.n.Add(1)
	return a.Engine.Take(ctx, name, takes)
}

// How long an answer takes tells nothing of a foreign name: the store is not asked about it, whether it is there or
// not, and the answers are the same but for the name.
func TestForeignNamesAskNobody(t *testing.T) {
	e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	counted := &asks{Engine: e}
	s := secureOver(t, counted, api.Options{})
	acme := s.with("acme", auth.Admin)
	for _, ask := range [][3]string{
		{"GET", "/v1/queues/NAME", ""},
		{"PUT", "/v1/queues/NAME", `{"rate":"1/s"}`},
		{"GET", "/v1/queues/NAME/jobs/j1", ""},
		{"POST", "/v1/queues/NAME/jobs", `{"payload":1}`},
		{"POST", "/v1/queues/NAME/leases", `{}`},
		{"GET", "/v1/rules/NAME", ""},
		{"POST", "/v1/rules/NAME/take", `{}`},
	} {
		kind, answers := "mail", []string{}
		if strings.Contains(ask[1], "/rules/") {
			kind = "rule"
		}
		before := counted.n.Load()
		for _, app := range []string{"beta", "none"} { // the one is there
			name := app + "-" + kind
			a := s.by(acme, ask[0], strings.Replace(ask[1], "NAME", name, 1), ask[2], "X-Request-Id", "r")
			a.want(t, 404)
			answers = append(answers, strings.ReplaceAll(a.text, name, "NAME"))
		}
		if asked := counted.n.Load() - before; asked != 0 || answers[0] != answers[1] {
			t.Errorf("%s %s: the store was asked %d times; %s and %s", ask[0], ask[1], asked, answers[0], answers[1])
		}
	}
	before := counted.n.Load()
	if s.by(acme, "GET", "/v1/queues/acme-mail", "").want(t, 200); counted.n.Load() == before {
		t.Error("nothing is counted")
	}
}

// Where targets may be besides at public addresses is told to those who may have them there.
func TestEgressIsToldToWhoConfigures(t *testing.T) {
	const network = "10.20.0.0/16"
	s := secure(t, api.Options{EgressAllow: []string{network}})
	for _, c := range []struct {
		roles []auth.Role
		told  bool
	}{
		{[]auth.Role{auth.View}, false},
		{[]auth.Role{auth.View, auth.Operate}, false},
		{[]auth.Role{auth.View, auth.Configure}, true},
		{[]auth.Role{auth.Admin}, true},
	} {
		a := s.by(s.with("", c.roles...), "GET", "/v1/store", "")
		a.want(t, 200)
		if told := strings.Contains(a.text, network); told != c.told {
			t.Errorf("%v is told: %v, want %v", c.roles, told, c.told)
		}
	}
}

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
	attend.Queues(t, s.store, "acme-mail")
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
