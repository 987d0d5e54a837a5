package auth

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/queue/invalid"
)

// rig is an Authority that runs on a store in memory.
type rig struct {
	*Authority
	t     *testing.T
	store *memory
	log   *logged
	op    *Identity
	stop  func()
}

type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newRig(t *testing.T, store *memory, issuers ...Issuer) *rig {
	t.Helper()
	r := newRigOn(t, store, issuers...)
	r.store = store
	return r
}

// newRigOn is one on any store.
func newRigOn(t *testing.T, store document.Documents, issuers ...Issuer) *rig {
	t.Helper()
	log := &logged{}
	a, err := New(store, Options{Log: slog.New(slog.NewTextHandler(log, nil)), Issuers: issuers})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return &rig{Authority: a, t: t, log: log, op: Operator("store"), stop: stop}
}

func (r *rig) app(name string, prefixes ...string) App {
	r.t.Helper()
	app, err := r.PutApp(r.t.Context(), r.op, App{Name: name, Prefixes: prefixes}, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	return app
}

func (r *rig) token(app string, grants ...Grant) (secret string, made Token) {
	r.t.Helper()
	secret, made, err := r.CreateToken(r.t.Context(), r.op, Token{App: app, Grants: grants})
	if err != nil {
		r.t.Fatal(err)
	}
	return secret, made
}

// as is who comes with a token.
func (r *rig) as(secret string) *Identity {
	r.t.Helper()
	id, err := r.Identify(with(secret))
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

// refused checks that somebody with a token is refused so.
func (r *rig) refused(secret string, want Code) {
	r.t.Helper()
	id, err := r.Identify(with(secret))
	if got := codeOf(err); got != want {
		r.t.Fatalf("%v, %v, want %s", id, err, want)
	}
}

func with(secret string) *http.Request {
	request := httptest.NewRequest(http.MethodGet, "/v1/queues", nil)
	request.Header.Set("Authorization", "Bearer "+secret)
	return request
}

func codeOf(err error) Code {
	var r *Refusal
	if errors.As(err, &r) {
		return r.Code
	}
	return ""
}

// fieldOf is the field that an error is about.
func fieldOf(err error) string {
	var f *invalid.Error
	if errors.As(err, &f) {
		return f.Field
	}
	return ""
}

// silent checks that a log shows none of some texts.
func (r *rig) silent(secrets ...string) {
	r.t.Helper()
	for _, secret := range secrets {
		if strings.Contains(r.log.String(), secret) {
			r.t.Fatalf("the log has %q", secret)
		}
	}
}
