package app_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/faultproxy"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/queue/redisq"
)

// An ingress whose Redis is away answers takes as each rule's away says, counts that, and asks Redis again when it is
// back.
func TestTakesWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	s := redistest.New(t, redistest.Options{})
	proxy := faultproxy.New(t, s.Addr())
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	defer client.Close()
	engine, err := redisq.OpenClient(t.Context(), client, redisq.Options{Init: true})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	in, err := app.NewIngress(engine, app.IngressOptions{
		Listen: ops.Listen{Addr: "127.0.0.1:0"}, ValidateTarget: app.ValidTarget(nil, secrets.Source{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- in.Run(ctx) }()
	defer func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	}()
	const json = "application/json"
	take := func(rule string) int {
		status, _ := call(t, http.MethodPost, in.URL()+"/v1/rules/"+rule+"/take", `{"key": "k"}`, json)
		return status
	}
	for rule, away := range map[string]string{"a.open": "open", "b.closed": "closed"} {
		status, body := call(
			t, http.MethodPut, in.URL()+"/v1/rules/"+rule,
			`{"algorithm": "sliding_log", "limit": 2, "period": "1h", "key": "{lane}", "away": "`+away+`"}`, json,
		)
		if status != http.StatusCreated {
			t.Fatal(status, body)
		}
		if status := take(rule); status != http.StatusOK {
			t.Fatal(status)
		}
	}
	// A queue that names rules of both: of other groups than its own.
	if status, body := call(
		t, http.MethodPut, in.URL()+"/v1/queues/mail", `{"rate": "1/s", "rules": ["a.open", "b.closed"], "pull": true}`, json,
	); status != http.StatusCreated {
		t.Fatal(status, body)
	}
	post := func() int {
		status, _ := call(t, http.MethodPost, in.URL()+"/v1/queues/mail/jobs", `{"payload": {}, "lane": "k"}`, json)
		return status
	}
	if status := post(); status != http.StatusAccepted {
		t.Error(status)
	}
	if status := post(); status != http.StatusTooManyRequests {
		t.Errorf("a third of 2: %d", status)
	}
	proxy.Refuse()
	proxy.Cut()
	for range 3 {
		if status := take("a.open"); status != http.StatusOK {
			t.Errorf("open: %d", status)
		}
		if status := take("b.closed"); status != http.StatusTooManyRequests {
			t.Errorf("closed: %d", status)
		}
	}
	if _, page := call(
		t, http.MethodGet, in.URL()+"/metrics", "", "",
	); !strings.Contains(page, "penstock_rule_away_total{") {
		t.Error("it is not counted")
	}
	proxy.Admit()
	await.Until(t, "Redis decides again", func() bool { return take("a.open") == http.StatusTooManyRequests })
}
