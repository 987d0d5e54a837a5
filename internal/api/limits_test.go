package api_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/rules"
)

// A turn is charged to the app that waits for it, and to nobody else.
func TestTurnsAreOfTheAppThatWaits(t *testing.T) {
	s := secure(t, api.Options{})
	s.put("/v1/rules/acme-turn.each", `{"algorithm":"fixed_window","limit":1,"period":"1h","key":"{app}"}`)
	s.put("/v1/queues/acme-turn", `{"rate":"unlimited","pull":true,"rules":["acme-turn.each"]}`)
	acme := s.with("acme", auth.Consume, auth.Produce)
	turn := func(token string) *answer { return s.by(token, "POST", "/v1/queues/acme-turn/turns", `{"wait":"5s"}`) }
	turn(acme).want(t, 200)
	if again := turn(acme); again.status == 200 {
		t.Errorf("a second one: %s", again.text)
	}
	turn(s.operator).want(t, 200)
	peek := s.by(acme, "POST", "/v1/rules/acme-turn.each/peek", `{"key":"acme"}`)
	peek.want(t, 200, "allowed", false)
}

// Limits of an app hold over all ingresses: each counts what the store has. Puts that come to several at the very same
// time pass them by one for each further ingress at most.
func TestLimitsHoldAcrossIngresses(t *testing.T) {
	s := secure(t, api.Options{})
	other := *s
	other.fixture = &fixture{t: t}
	other.serveOver(s.store, api.Options{Auth: s.authority})
	acme := s.with("acme", auth.Configure, auth.View)
	s.put("/v1/apps/acme", `{"prefixes":["acme-*","ses.acme"],"limits":{"queues":4,"rules":2,"bytes":"8MiB","lanes":400}}`)
	const spec = `{"rate":"1/s","capacity":100,"max_bytes":"1MiB"}`
	s.by(s.operator, "PUT", "/v1/queues/acme-mail", spec).want(t, 200)
	s.by(s.operator, "PUT", "/v1/queues/ses.acme", spec).want(t, 200)
	s.by(acme, "PUT", "/v1/queues/acme-a", spec).want(t, 201)
	other.by(acme, "PUT", "/v1/queues/acme-b", spec).want(t, 201)
	s.by(acme, "PUT", "/v1/queues/acme-c", spec).want(t, 400, "field", "name")
	other.by(acme, "PUT", "/v1/queues/acme-c", spec).want(t, 400, "field", "name")
	other.by(acme, "PUT", "/v1/queues/acme-a", `{"rate":"1/s","capacity":101,"max_bytes":"1MiB"}`).
		want(t, 400, "field", "capacity")
	other.by(acme, "PUT", "/v1/queues/acme-a", `{"rate":"1/s","capacity":100,"max_bytes":"9MiB"}`).
		want(t, 400, "field", "max_bytes")
	s.by(acme, "PUT", "/v1/rules/acme-r", `{"algorithm":"meter","rate":"1/s"}`).want(t, 201)
	other.by(acme, "PUT", "/v1/rules/acme-s", `{"algorithm":"meter","rate":"1/s"}`).want(t, 400, "field", "name")
	s.by(s.operator, "DELETE", "/v1/queues/acme-b", "").want(t, 204)
	var all sync.WaitGroup
	for i := range 8 {
		of := []*secured{s, &other}[i%2]
		all.Go(func() { of.by(acme, "PUT", fmt.Sprint("/v1/queues/acme-", i), spec) })
	}
	all.Wait()
	a := s.by(acme, "GET", "/v1/queues", "")
	if n := len(a.body["queues"].([]any)); n < 4 || n > 5 {
		t.Errorf("it has %d queues, its limit is 4", n)
	}
}

// The limits of an app, each passed by one.
func TestLimitsOfAnApp(t *testing.T) {
	s := secure(t, api.Options{})
	acme := s.with("acme", auth.Configure, auth.Produce, auth.Consume, auth.View)
	limits := func(l string) { s.put("/v1/apps/acme", `{"prefixes":["acme-*","ses.acme"],"limits":`+l+`}`) }
	const spec = `{"rate":"1/s","pull":true,"capacity":100,"max_bytes":"1MiB"}`
	limits(`{"queues":3,"rules":2}`)
	s.by(acme, "PUT", "/v1/queues/acme-a", spec).want(t, 201)
	s.by(acme, "PUT", "/v1/queues/acme-b", spec).want(t, 400, "field", "name")
	s.by(acme, "PUT", "/v1/queues/acme-a", spec).want(t, 200)
	s.by(acme, "PUT", "/v1/rules/acme-r", `{"algorithm":"meter","rate":"1/s"}`).want(t, 201)
	s.by(acme, "PUT", "/v1/rules/acme-s", `{"algorithm":"meter","rate":"1/s"}`).want(t, 400, "field", "name")
	s.by(acme, "PUT", "/v1/rules/acme-r", `{"algorithm":"meter","rate":"2/s"}`).want(t, 200)
	s.by(s.operator, "PUT", "/v1/queues/acme-c", spec).want(t, 201) // the operator's word counts
	limits(`{"bytes":"2MiB"}`)
	s.by(acme, "PUT", "/v1/queues/acme-a", `{"rate":"1/s","pull":true,"max_bytes":"2MiB"}`).
		want(t, 400, "field", "max_bytes")
	s.by(acme, "PUT", "/v1/queues/acme-a", `{"rate":"1/s","pull":true}`).want(t, 400, "field", "max_bytes")
	limits(`{"waits":1,"streams":1}`)
	waits := make(chan *answer, 2)
	for range 2 {
		go func() { waits <- s.by(acme, "POST", "/v1/queues/acme-a/leases", `{"wait":"1s"}`) }()
	}
	if a, b := <-waits, <-waits; min(a.status, b.status) != 200 || max(a.status, b.status) != 429 {
		t.Errorf("of two waits: %s and %s", a.text, b.text)
	}
	limits(`{"rate":"2/h"}`)
	await.Until(t, "the rate is known", func() bool { return s.by(acme, "GET", "/v1/whoami", "").status == 429 })
	a := s.by(acme, "GET", "/v1/queues", "")
	a.want(t, 429, "reason", "limit_reached", "rule", "app.acme")
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	s.by(s.with("beta", auth.View), "GET", "/v1/queues", "").want(t, 200)
	limits(`{}`)
	await.Until(
		t,
		"there is no rate any more",
		func() bool { return s.by(acme, "GET", "/v1/queues", "").status == 200 },
	)
	s.by(s.operator, "GET", "/v1/rules/app.acme", "").want(t, 404)
}

// ruleless is an engine that may put no rules.
type ruleless struct {
	queue.Engine
	away atomic.Bool
}

func (e *ruleless) PutRule(ctx context.Context, r rules.Rule, expect int64) (queue.PutResult, error) {
	if e.away.Load() {
		return queue.PutResult{}, queue.ErrUnavailable
	}
	return e.Engine.PutRule(ctx, r, expect)
}

// An app is never without the rule of its rate, and a put that fails leaves both as they were.
func TestAppAndItsRateAreOne(t *testing.T) {
	bolt, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bolt.Close() })
	e := &ruleless{Engine: bolt}
	s := secureOver(t, e, api.Options{})
	const gamma = `{"prefixes":["gamma-*"],"limits":{"rate":"5/s"}}`
	e.away.Store(true)
	s.by(s.operator, "PUT", "/v1/apps/gamma", gamma).want(t, 503)
	s.by(s.operator, "GET", "/v1/apps/gamma", "").want(t, 404)
	e.away.Store(false)
	s.by(s.operator, "PUT", "/v1/apps/gamma?adopt=true", `{"prefixes":["acme-*"],"limits":{"rate":"5/s"}}`).want(t, 400)
	s.by(s.operator, "GET", "/v1/rules/app.gamma", "").want(t, 404)
	s.put("/v1/apps/gamma", gamma)
	s.by(s.operator, "GET", "/v1/rules/app.gamma", "").want(t, 200, "rate", "5/s")
	const faster = `{"prefixes":["gamma-*"],"limits":{"rate":"50/s"}}`
	s.by(s.operator, "PUT", "/v1/apps/gamma", faster, "If-Match", `"999999"`).want(t, 412)
	s.by(s.operator, "GET", "/v1/rules/app.gamma", "").want(t, 200, "rate", "5/s")
	e.away.Store(true)
	s.by(s.operator, "PUT", "/v1/apps/gamma", faster).want(t, 503)
	s.by(s.operator, "GET", "/v1/rules/app.gamma", "").want(t, 200, "rate", "5/s")
	e.away.Store(false)
	s.put("/v1/apps/gamma", `{"prefixes":["gamma-*"]}`)
	s.by(s.operator, "GET", "/v1/rules/app.gamma", "").want(t, 404)
}
