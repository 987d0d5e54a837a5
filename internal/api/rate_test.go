package api_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/rules"
)

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
