package api_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/penstock/penstock/internal/metrics"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/document"
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
