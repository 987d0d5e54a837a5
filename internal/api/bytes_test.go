package api_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

// A job that finds no bytes is told what is held, what may be, and what it needs; one that never fits is refused for
// good.
func TestFullByBytes(t *testing.T) {
	e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	f := serve(t, api.Options{})
	f.serveOver(e, api.Options{})
	letters := func(n int) string { return strings.Repeat("x", n) }
	f.do(
		"PUT", "/v1/queues/email", `{"rate":"1/h","max_bytes":"2KiB","lanes":{"max_bytes":1200}}`,
	).want(t, 201, "max_bytes", "2KiB")
	f.do("POST", "/v1/queues/email/jobs", `{"payload":"`+letters(500)+`"}`).want(t, 202)
	f.do("POST", "/v1/queues/email/jobs", `{"payload":"`+letters(100)+`","lane":"x"}`).want(t, 202)
	a := f.do("POST", "/v1/queues/email/jobs", `{"payload":"`+letters(100)+`","lane":"x"}`)
	a.want(t, 429, "reason", "lane_full", "field", "lane")
	if b, _ := a.body["bytes"].(map[string]any); b["max"] != 1200.0 || b["held"] == nil || b["needs"] == nil {
		t.Errorf("%s", a.text)
	}
	a = f.do("POST", "/v1/queues/email/jobs", `{"payload":"`+letters(500)+`"}`)
	a.want(t, 429, "reason", "full")
	if b, _ := a.body["bytes"].(map[string]any); b["max"] != 2048.0 || a.body["retry_after_ms"] == nil ||
		a.header.Get("Retry-After") == "" {
		t.Errorf("%s", a.text)
	}
	f.do("POST", "/v1/queues/email/jobs", `{"payload":"`+letters(2000)+`"}`).want(
		t, 400, "reason", "invalid_field", "field", "payload", "retry_after_ms", nil,
	)
	f.do("POST", "/v1/queues/email/jobs", `{"payload":"`+letters(1000)+`","lane":"x"}`).want(
		t, 400, "reason", "invalid_field", "field", "payload",
	)
	stats, _ := f.do("GET", "/v1/queues/email", "").body["stats"].(map[string]any)
	if held, _ := stats["bytes"].(float64); held < 1600 || held > 2048 || stats["max_bytes"] != 2048.0 {
		t.Errorf("%v", stats)
	}
}

// A store that fills is told of by /readyz, which stays 200: what makes room comes through this server too.
func TestReadinessOfAStoreThatFills(t *testing.T) {
	f := serve(t, api.Options{})
	for _, c := range []struct {
		space queue.Space
		want  []any
	}{
		{queue.Space{}, []any{"status", "ready"}},
		{queue.Space{Used: 80, Stop: 100, Limit: 110}, []any{"status", "ready"}},
		{queue.Space{Used: 81, Stop: 100, Limit: 110}, []any{
			"status", "degraded", "store", "filling", "detail",
			"the store fills: 81 of 110 bytes are used, and no jobs are taken from 100 on",
		}},
		{queue.Space{Used: 100, Stop: 100, Limit: 110}, []any{"status", "degraded", "store", "full"}},
	} {
		f.engine.space = c.space
		f.do("GET", "/readyz", "").want(t, 200, c.want...)
	}
}
