package api_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/internal/metrics"
	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/boltq"
)

// secured is the API over a store on a file, with an Authority and two apps: acme, whose names are acme-* and ses.acme,
// and beta, whose names are beta-* and ses.beta.
type secured struct {
	*fixture
	store     queue.Engine
	authority *auth.Authority
	documents *documents
	log       *logText
	survey    *survey.Survey
	operator  string // a token that may do everything
}

const (
	acmeQueue, acmeChild, acmeRule = "acme-mail", "ses.acme", "acme-rule"
	betaQueue, betaChild, betaRule = "beta-mail", "ses.beta", "beta-rule"
)

func secure(t *testing.T, o api.Options) *secured {
	t.Helper()
	e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return secureOver(t, e, o)
}

func secureOver(t *testing.T, e queue.Engine, o api.Options) *secured {
	t.Helper()
	s := &secured{fixture: &fixture{t: t}, store: e, documents: &documents{Documents: e}, log: &logText{}}
	var err error
	if s.authority, err = auth.New(s.documents, auth.Options{Log: slog.New(slog.NewTextHandler(s.log, nil))}); err != nil {
		t.Fatal(err)
	}
	run(t, s.authority.Run)
	await.Until(t, "the authority is ready", func() bool { return s.authority.Ready() == nil })
	dispatcher := pull.New(e, pull.Options{})
	turns := pull.NewQueueTurns(e, dispatcher)
	run(t, dispatcher.Run)
	t.Cleanup(turns.Close)
	s.survey = survey.New(e, survey.Options{})
	o.Auth, o.Pull, o.Turns, o.Survey = s.authority, dispatcher, turns, s.survey
	o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
	})
	o.OwnMetrics = s.ownMetrics
	o.Logger = slog.New(slog.NewTextHandler(s.log, nil))
	s.serveOver(e, o)
	s.operator = s.token("", auth.Grant{Role: auth.Admin})
	s.put("/v1/apps/acme", `{"prefixes":["acme-*","ses.acme"]}`)
	s.put("/v1/apps/beta", `{"prefixes":["beta-*","ses.beta"]}`)
	s.put("/v1/queues/ses", `{"rate":"100/s"}`)
	for _, app := range []string{"acme", "beta"} {
		s.put("/v1/queues/"+app+"-mail", `{"rate":"100/s","pull":true}`)
		s.put("/v1/queues/ses."+app, `{"rate":"100/s"}`)
		s.put("/v1/rules/"+app+"-rule", `{"algorithm":"meter","rate":"1000/s","burst":1000}`)
		s.by(s.operator, "POST", "/v1/queues/"+app+"-mail/jobs", `{"id":"j1","payload":"secret text"}`).want(t, 202)
	}
	return s
}

// ownMetrics serves what a caller sees of metrics of both apps.
func (s *secured) ownMetrics(app string, sees func(string) bool) http.Handler {
	reg := prometheus.NewRegistry()
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "appended_total"}, []string{"queue"})
	decisions := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "decisions_total"}, []string{"rule"})
	reg.MustRegister(counter, decisions)
	for _, name := range []string{"acme-mail", "ses.acme", betaQueue, betaChild, "ses", metrics.Other} {
		counter.WithLabelValues(name).Inc()
	}
	for _, name := range []string{"acme-rule", betaRule, metrics.Other} {
		decisions.WithLabelValues(name).Inc()
	}
	snapshot, err := s.survey.First(s.t.Context())
	if err != nil {
		s.t.Error(err)
	}
	return promhttp.HandlerFor(metrics.Own{All: reg, Rows: snapshot.Rows(), App: app, Sees: sees}, promhttp.HandlerOpts{})
}

func run(t testing.TB, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// by sends a request with a token.
func (s *secured) by(token, method, path, body string, header ...string) *answer {
	s.t.Helper()
	return s.do(method, path, body, append(header, "Authorization", "Bearer "+token)...)
}

// put puts something as the operator.
func (s *secured) put(path, body string) {
	s.t.Helper()
	if a := s.by(s.operator, "PUT", path, body); a.status/100 != 2 {
		s.t.Fatalf("PUT %s: %d %s", path, a.status, a.text)
	}
}

// token makes a token of an app, empty is the operator.
func (s *secured) token(app string, grants ...auth.Grant) string {
	s.t.Helper()
	secret, _, err := s.authority.CreateToken(
		s.t.Context(),
		auth.Operator("test"),
		auth.Token{App: app, Grants: grants},
	)
	if err != nil {
		s.t.Fatal(err)
	}
	return secret
}

// with is a token of an app with a role for all that is its own.
func (s *secured) with(app string, roles ...auth.Role) string {
	s.t.Helper()
	var grants []auth.Grant
	for _, role := range roles {
		grants = append(grants, auth.Grant{Role: role})
	}
	return s.token(app, grants...)
}

// logText is what was logged.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// documents are those of a store that can be away.
type documents struct {
	document.Documents
	away atomic.Bool
}

func (d *documents) DocumentsSince(ctx context.Context, after int64, limit int) (document.Page, error) {
	if d.away.Load() {
		return document.Page{}, queue.ErrUnavailable
	}
	return d.Documents.DocumentsSince(ctx, after, limit)
}

// entries are those of the audit log, by partition and number.
func (s *secured) entries() (all []audit.Entry) {
	s.t.Helper()
	for n := range s.store.Partitions() {
		for from := int64(0); ; {
			page, err := s.store.Audit(
				s.t.Context(),
				audit.Request{Partition: n, From: from, Limit: audit.MaxPage},
			)
			if err != nil {
				s.t.Fatal(err)
			}
			for i := range page.Records {
				e, err := page.Records[i].Entry()
				if err != nil {
					s.t.Fatal(err)
				}
				all = append(all, e)
				from = e.Number + 1
			}
			if len(page.Records) < audit.MaxPage {
				break
			}
		}
	}
	return all
}

// refused are the entries of refused requests, as OPERATION REASON xTIMES.
func (s *secured) refused() (all []string) {
	s.t.Helper()
	for _, e := range s.entries() {
		if e.Refused != "" {
			all = append(all, fmt.Sprintf("%s %s of %s %s by %s x%d",
				e.Actor.Operation, e.Refused, e.Of, e.Name, cmp.Or(e.Actor.Name, e.Actor.Address), e.Times))
		}
	}
	return all
}

// bodies are what operations are sent that take something else than an empty object.
var bodies = map[string]string{
	"appendJobs":    `{"payload":1}`,
	"awaitTurn":     `{"wait":"100ms"}`,
	"decideJob":     `{"decision":"dead"}`,
	"decideJobs":    `{"decision":"dead"}`,
	"putQueue":      `{"rate":"100/s","pull":true}`,
	"putRule":       `{"algorithm":"meter","rate":"1000/s","burst":1000}`,
	"quoteQueue":    `{"jobs":1}`,
	"rollbackQueue": `{"dry_run":true}`,
	"throttleQueue": `{"after":"1us"}`,
	"refundRule":    `{"lease":"x"}`,
	"purgeQueue":    `{"state":"waiting","dry_run":true}`,
}

// call is an operation as a test sends it.
func (s *secured) call(token string, op api.Operation, queue, rule string) *answer {
	s.t.Helper()
	path := strings.NewReplacer(
		"{queue}", queue, "{rule}", rule, "{id}", "j1", "{batch}", "b", "{app}", "nobody", "{token}", "abcdefghijkl",
		"{subject}", "unix:7",
	).Replace(op.Path)
	if op.Name == "listJobs" {
		path += "?state=waiting"
	}
	if op.Name == "findJobs" {
		path += "?id=j1"
	}
	body := ""
	if op.Method != http.MethodGet && op.Method != http.MethodDelete {
		if body = bodies[op.Name]; body == "" {
			body = "{}"
		}
	}
	if strings.HasPrefix(op.Name, "follow") { // what is answered does not end
		st := follow(s.fixture, path, "Authorization", "Bearer "+token)
		defer st.close()
		return st.answer
	}
	if token == "" {
		return s.do(op.Method, path, body)
	}
	return s.by(token, op.Method, path, body)
}

// restore brings back what an operation may have deleted.
func (s *secured) restore(op api.Operation) {
	s.t.Helper()
	switch op.Name {
	case "deleteQueue":
		s.put("/v1/queues/"+acmeQueue, bodies["putQueue"])
	case "deleteRule":
		s.put("/v1/rules/"+acmeRule, bodies["putRule"])
	}
}

var rolesRow = regexp.MustCompile("(?m)^\\|`(\\w+)`\\|([^|]*)\\|(.*)\\|$")

// Each cell of the table in docs/roles.md is tried on the handler: with what is the app's own, and with what is not.
func TestEveryRoleWithEveryOperation(t *testing.T) {
	page, err := os.ReadFile("../../docs/roles.md")
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		of    string
		roles map[auth.Role]bool
	}
	rows := map[string]row{}
	for _, m := range rolesRow.FindAllStringSubmatch(string(page), -1) {
		r := row{m[2], map[auth.Role]bool{}}
		for i, cell := range strings.Split(m[3], "|") {
			r.roles[auth.Roles()[i]] = cell != ""
		}
		rows[m[1]] = r
	}
	s := secure(t, api.Options{})
	acme, operator := map[auth.Role]string{}, map[auth.Role]string{}
	for _, role := range auth.Roles() {
		acme[role], operator[role] = s.with("acme", role), s.with("", role)
	}
	for _, op := range api.EachOperation() {
		row, ok := rows[op.Name]
		if !ok {
			t.Errorf("docs/roles.md has no row for %s", op.Name)
			continue
		}
		delete(rows, op.Name)
		if row.of == "nobody" {
			if a := s.call("", op, acmeQueue, acmeRule); a.status == 401 || a.status == 403 {
				t.Errorf("%s without a token: %d %s", op.Name, a.status, a.text)
			}
			continue
		}
		s.call("", op, acmeQueue, acmeRule).want(t, 401, "reason", "unauthenticated")
		for _, role := range auth.Roles() {
			allowed := row.roles[role]
			for _, c := range []struct {
				as, token string
				allowed   bool
			}{
				{"acme", acme[role], allowed && row.of != "everything"},
				{"the operator", operator[role], allowed},
			} {
				a := s.call(c.token, op, acmeQueue, acmeRule)
				reason, _ := a.body["reason"].(string)
				switch {
				case c.allowed && (a.status == 401 || a.status == 403 || reason == "unknown_queue" || reason == "unknown_rule"):
					t.Errorf("%s by %s with the role %s: %d %s", op.Name, c.as, role, a.status, a.text)
				case !c.allowed && (a.status != 403 || reason != "forbidden"):
					t.Errorf(
						"%s by %s with the role %s, which it needs not: %d %s",
						op.Name,
						c.as,
						role,
						a.status,
						a.text,
					)
				}
				s.restore(op)
			}
			if row.of != "queue" && row.of != "rule" {
				continue
			}
			// What is beta's, what nobody has and what is no name at all: the same answer, whatever the role.
			for _, names := range [][2]string{
				{betaQueue, betaRule}, {"none-mail", "none-rule"}, {"ses", "ses"}, {"BETA", "BETA"},
			} {
				a := s.call(acme[role], op, names[0], names[1])
				a.want(t, 404, "reason", "unknown_"+row.of)
				if op.Name == "getQueue" || op.Name == "getRule" { // as it is answered to whom all names are his
					b := s.call(s.operator, op, "none-mail", "none-rule")
					name := map[string]string{"queue": names[0], "rule": names[1]}[row.of]
					got := strings.ReplaceAll(a.body["detail"].(string), name, "none-"+map[string]string{
						"queue": "mail", "rule": "rule",
					}[row.of])
					want := b.body["detail"].(string)
					if names[0] == "BETA" { // which nothing could be called, so nothing creates it
						want, _, _ = strings.Cut(want, ";")
					}
					if got != want {
						t.Errorf("%s of %s: %s, and of what there is not: %s", op.Name, name, got, want)
					}
				}
			}
		}
	}
	for name := range rows {
		t.Errorf("docs/roles.md has a row for %s, which is no operation", name)
	}
}
