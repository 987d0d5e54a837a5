package smstarget_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/cli/sink/smssim"
	"github.com/penstock/penstock/internal/test/keytest"
	"github.com/penstock/penstock/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "planted-token-4711"

// open is a gate that is not waited in.
type open struct{}

func (open) Wait(context.Context) error { return nil }
func (open) Closes() time.Time          { return time.Now().Add(time.Hour) }

// rig is a router, and a provider that it sends to.
type rig struct {
	t      *testing.T
	sim    *smssim.Simulator
	url    string
	router *deliver.Router
	allow  []secrets.Allow
	log    bytes.Buffer
}

func newRig(t *testing.T, o smssim.Options) *rig {
	t.Helper()
	t.Setenv("PENSTOCK_SECRET_TOKEN", token)
	o.Token = token
	r := &rig{t: t, sim: smssim.New(o)}
	r.serve(r.sim)
	return r
}

func (r *rig) serve(h http.Handler) {
	r.t.Helper()
	server := httptest.NewServer(h)
	r.t.Cleanup(server.Close)
	r.url = server.URL
	r.may(r.url + ",me.example.com")
}

// may has the token go to hosts.
func (r *rig) may(hosts string) {
	r.t.Helper()
	r.allow = append(r.allow, keytest.Allow(r.t, "TOKEN="+hosts+";sms")...)
	r.router = routed(r.t, deliver.Options{Secrets: secrets.Source{Allow: r.allow}, Logger: slog.New(
		slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelDebug}),
	)})
}

// routed returns a router that may reach this machine.
func routed(t *testing.T, o deliver.Options) *deliver.Router {
	t.Helper()
	guard, err := egress.New(egress.Loopback...)
	if err != nil {
		t.Fatal(err)
	}
	o.Egress = guard
	router := deliver.New(o)
	t.Cleanup(func() { _ = router.Close() })
	return router
}

// job is a text to a number, by the target with more fields.
func (r *rig) job(to, text, more string) *drain.Job {
	payload, err := json.Marshal(map[string]string{"to": to, "text": text})
	if err != nil {
		r.t.Fatal(err)
	}
	j := &drain.Job{Reservation: queue.Reservation{
		Job: queue.Job{Queue: "sms", ID: queue.NewID(), Payload: payload, ContentType: "application/json"}, Attempt: 1,
		Revision: 1,
	}}
	j.Spec = &queue.Spec{Deliver: json.RawMessage(target(r.url, more))}
	return j
}

func target(url, more string) string {
	return fmt.Sprintf(
		`{"sms": {"provider": "twilio", "url": %q, "account": %q, "auth_token": "${secret:TOKEN}", `+
			`"from": "+15005550006"%s}}`,
		url, smssim.DefaultAccount, more,
	)
}

const quick = `, "grace": "20ms"`

func (r *rig) send(to, text, more string) error {
	r.t.Helper()
	return r.router.Handle(r.t.Context(), r.job(to, text, more), open{})
}

func (r *rig) texts() (bodies []string) {
	for _, t := range r.sim.Texts() {
		bodies = append(bodies, t.Body)
	}
	return bodies
}
