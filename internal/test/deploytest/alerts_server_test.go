package deploytest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/asynq"
	"github.com/penstock/penstock/internal/test/redistest"
)

// waitsFor is how long an alert waits before it fires, which nobody does here.
var waitsFor = regexp.MustCompile(`(?m)^ +for: \S+\n`)

// What happens to the 250th queue is told by its name, though only the first 200 always have series of their own. A
// real Prometheus evaluates the alerts, each without its "for".
func TestAlertsNameQueuesBeyondTheFirst(t *testing.T) {
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch body, _ := io.ReadAll(r.Body); {
		case strings.Contains(string(body), "refuse"):
			w.WriteHeader(http.StatusUnprocessableEntity)
		case strings.Contains(string(body), "fail"):
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(target.Close)
	redis := redistest.New(t, redistest.Options{})
	stores := []string{"--redis", redis.URL(), "--listen", "127.0.0.1:0", "--egress-allow", "127.0.0.1"}
	front, ingress := startInProcess(
		t, app.RunIngress, append(stores, "--init", "--health-listen", "127.0.0.1:0", "--drain-delay", "0")...,
	)
	drainer, _ := startInProcess(t, app.RunDrainer(asynq.Open), stores...)
	token := firstToken(t, redis.URL())
	put := func(name, spec string) {
		call(t, token, http.MethodPut, front+"/v1/queues/"+name, "{"+spec+"}", http.StatusCreated)
	}
	push := func(name, body string, status int) {
		call(t, token, http.MethodPost, front+"/v1/queues/"+name+"/jobs", body, status)
	}
	deliver := fmt.Sprintf(`"rate":"100/s","slack":"10s","deliver":{"http":{"url":%q}}`, target.URL)
	for i := range 249 {
		name := fmt.Sprintf("q%03d", i)
		put(name, deliver)
		push(name, `{"payload":1}`, http.StatusAccepted)
	}
	poll(t, "all have left", func() error {
		page, err := get(t, drainer+"/metrics")
		// a queue that meets trouble on a slow machine has series besides the first 200
		if n := strings.Count(page, "\npenstock_departures_total{queue=\"q"); err == nil && (n < 200 || n == 249) {
			err = fmt.Errorf("%d queues have series", n)
		}
		return err
	})
	server := startPrometheus(t, quickAlerts(load(t)), map[string]string{
		"penstock-ingress": strings.TrimPrefix(ingress, "http://"),
		"penstock-drainer": strings.TrimPrefix(drainer, "http://"),
	})

	put("z-full", `"rate":"1/h","capacity":1`)
	put("z-lane", `"rate":"1/h","lanes":{"capacity":1}`)
	put("z-dead", deliver)
	put("z-fail", deliver+`,"retry":{"min_backoff":"100ms","max_backoff":"100ms","max_attempts":100}`)
	put("z-paused", deliver)
	call(t, token, http.MethodPost, front+"/v1/queues/z-paused/pause", "", http.StatusOK)
	push("z-paused", `{"payload":1}`, http.StatusAccepted)
	push("z-dead", `{"payload":"refuse"}`, http.StatusAccepted)
	push("z-fail", `{"payload":"fail"}`, http.StatusAccepted)
	for _, name := range []string{"z-full", "z-lane"} {
		push(name, `{"payload":1,"lane":"a"}`, http.StatusAccepted)
	}
	want := map[string]string{
		"PenstockRefusing": "z-full", "PenstockLanesRefuse": "z-lane", "PenstockDeadLetters": "z-dead",
		"PenstockRetries": "z-fail", "PenstockPaused": "z-paused",
	}
	poll(t, "each alert fires with the name of its queue", func() error {
		push("z-full", `{"payload":1}`, http.StatusTooManyRequests)
		push("z-lane", `{"payload":1,"lane":"a"}`, http.StatusTooManyRequests)
		for alert, name := range want {
			query := fmt.Sprintf(`ALERTS{alertstate="firing",alertname=%q,queue=%q}`, alert, name)
			if n, err := server.series(t, query); err != nil || n == 0 {
				return fmt.Errorf("%s does not name %s: %w", alert, name, err)
			}
		}
		return nil
	})
	if n, err := server.series(t, `ALERTS{alertstate="firing",queue="_other"}`); err != nil || n > 0 {
		t.Errorf("%d alerts name no queue: %v", n, err)
	}
}

// quickAlerts fire at once.
func quickAlerts(deploy files) files {
	quick := files{}
	for name, text := range deploy {
		if name == "prometheus/alerts.yml" {
			text = waitsFor.ReplaceAllString(text, "")
		}
		quick[name] = text
	}
	return quick
}
