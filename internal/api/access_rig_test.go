package api_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

// secured is the API over a store on a file, with an Authority and two apps: acme, whose names are acme-* and ses.acme,
// and beta, whose names are beta-* and ses.beta.
type secured struct {
	*fixture
	store     queue.Engine
	authority *auth.Authority
	records   *records
	log       *logText
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
	s := &secured{fixture: &fixture{t: t}, store: e, records: newRecords(), log: &logText{}}
	if s.authority, err = auth.New(s.records, auth.Options{Log: slog.New(slog.NewTextHandler(s.log, nil))}); err != nil {
		t.Fatal(err)
	}
	run(t, s.authority.Run)
	await.Until(t, "the authority is ready", func() bool { return s.authority.Ready() == nil })
	dispatcher := pull.New(e, pull.Options{})
	turns := pull.NewQueueTurns(e, dispatcher)
	run(t, dispatcher.Run)
	t.Cleanup(turns.Close)
	o.Auth, o.Audit, o.Pull, o.Turns = s.authority, s.records, dispatcher, turns
	o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
	})
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

// records are documents and an audit log in memory.
type records struct {
	mu       sync.Mutex
	all      map[string]queue.Document
	revision int64
	entries  []queue.AuditRecord
	away     error
}

func newRecords() *records { return &records{all: map[string]queue.Document{}} }

func (r *records) setAway(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = err
}

func (r *records) Document(_ context.Context, kind, name string) (queue.Document, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d, ok := r.all[kind+"/"+name]; r.away == nil && ok && d.Text != nil {
		return d, nil
	}
	return queue.Document{}, cmp.Or(r.away, queue.UnknownDocument(kind, name))
}

func (r *records) DocumentsSince(_ context.Context, after int64, limit int) (queue.DocumentsPage, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	page := queue.DocumentsPage{Run: "1"}
	for _, d := range r.all {
		if d.Revision > after {
			page.Documents = append(page.Documents, d)
		}
	}
	slices.SortFunc(page.Documents, func(a, b queue.Document) int { return cmp.Compare(a.Revision, b.Revision) })
	if len(page.Documents) > limit {
		page.Documents, page.More = page.Documents[:limit], true
	}
	return page, r.away
}

func (r *records) PutDocument(_ context.Context, d queue.Document, expect int64) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, at := r.all[d.Kind+"/"+d.Name], int64(0)
	if old.Text != nil {
		at = old.Revision
	}
	switch {
	case r.away != nil:
		return 0, r.away
	case expect != queue.AnyRevision && expect != at:
		return at, queue.ErrRevision
	case d.Text == nil && at == 0:
		return 0, queue.UnknownDocument(d.Kind, d.Name)
	}
	r.revision++
	d.Revision, d.At = r.revision, time.Now()
	r.all[d.Kind+"/"+d.Name] = d
	return d.Revision, nil
}

func (r *records) Record(_ context.Context, e queue.AuditEntry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Number, e.At = int64(len(r.entries)+1), time.Now().UnixMicro()
	if n := len(r.entries); n > 0 {
		e.Previous = string(r.entries[n-1].Digest)
	}
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	r.entries = append(r.entries, queue.AuditRecord{Text: text, Digest: queue.Digest(hex.EncodeToString(sum[:]))})
	return nil
}

func (r *records) Audit(_ context.Context, ask queue.AuditRequest) (page queue.AuditPage, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := int64(len(r.entries))
	if n == 0 {
		return page, nil
	}
	page.Oldest, page.Newest, page.Head = 1, n, r.entries[n-1].Digest
	from, step := cmp.Or(ask.From, 1), int64(1)
	if ask.Back {
		from, step = cmp.Or(ask.From, n), -1
	}
	for at := from; at >= 1 && at <= n && len(page.Records) < ask.Limit; at += step {
		page.Records = append(page.Records, r.entries[at-1])
	}
	return page, nil
}

// refused are the entries of refused requests, as OPERATION REASON xTIMES.
func (r *records) refused() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.entries {
		if e, err := r.entries[i].Entry(); err == nil && e.Refused != "" {
			all = append(all, fmt.Sprintf("%s %s of %s %s by %s x%d",
				e.Actor.Operation, e.Refused, e.Of, e.Name, cmp.Or(e.Actor.Name, e.Actor.Address), e.Times))
		}
	}
	return all
}
