package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/internal/test/transcript"
)

// records are what a program logged as JSON under a message.
func records(log *transcript.Buffer, message string) (found []map[string]any) {
	for line := range strings.Lines(log.String()) {
		var record map[string]any
		if json.Unmarshal([]byte(line), &record) == nil && record["msg"] == message {
			found = append(found, record)
		}
	}
	return found
}

// one waits for the only record that has these fields.
func one(t *testing.T, log *transcript.Buffer, message string, want map[string]any) (found map[string]any) {
	t.Helper()
	n := 0
	await.Until(t, fmt.Sprint(message, " ", want), func() bool {
		n = 0
		for _, record := range records(log, message) {
			fits := true
			for name, value := range want {
				fits = fits && fmt.Sprint(record[name]) == fmt.Sprint(value)
			}
			if fits {
				n, found = n+1, record
			}
		}
		return n > 0
	})
	if n != 1 {
		t.Errorf("%d records %s %v", n, message, want)
	}
	return found
}

// The access log has each request, and the decision log what was refused, put aside or stopped. Neither has secrets.
func TestAccessAndDecisionLog(t *testing.T) {
	redis, nats := redistest.New(t, redistest.Options{}), startNATS(t)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	t.Cleanup(target.Close)
	url, log := logging(t, app.RunIngress, "--redis", redis.URL(), "--init", "--egress-allow", "127.0.0.1",
		"--nats", nats.URL(), "--access-log", "--decision-log")
	base := url + "/v1/queues/email"
	call(t, "PUT", base,
		fmt.Sprintf(`{"rate":"100/s","slack":"10s","capacity":1,"deliver":{"http":{"url":%q}}}`, target.URL),
		"application/json")
	call(t, "POST", base+"/pause", "", "")
	post := func(body string) {
		t.Helper()
		call(t, "POST", base+"/jobs", body, "application/json")
	}
	post(`{"id":"first","payload":"very secret"}`)
	one(t, log, "access", map[string]any{
		"operation": "appendJobs", "method": "POST", "path": "/v1/queues/email/jobs", "status": 202, "address": "127.0.0.1",
	})
	for range 3 {
		post(`{"id":"more","payload":"very secret"}`)
	}
	record := one(t, log, "decision", map[string]any{
		"decision": "refused", "queue": "email", "reason": "full", "job": "more",
	})
	if record["request"] == nil || record["request"] == "" || record["wait"] == nil {
		t.Errorf("the refusal: %v", record)
	}
	one(t, log, "decisions left out", map[string]any{"queue": "email", "reason": "full", "left_out": 2})
	post(`{"id":"later","payload":1,"overflow":"defer"}`)
	one(t, log, "decision", map[string]any{"decision": "deferred", "queue": "email", "reason": "overflow", "job": "later"})
	call(t, "POST", base+"/jobs", "{\"id\":\"line\",\"payload\":\"very secret\"}\n{}\n", "application/x-ndjson")
	one(t, log, "access", map[string]any{"operation": "appendJobs", "status": 200})
	call(t, "POST", url+"/v1/queues/none/jobs", `{"payload":1}`, "application/json")
	one(t, log, "access", map[string]any{"status": 404, "reason": "unknown_queue"})
	one(t, log, "decision", map[string]any{"decision": "refused", "queue": "none", "reason": "unknown_queue"})
	call(t, "GET", url+"/nowhere%0Amsg=forged/?key=very+secret", "", "")
	one(t, log, "access", map[string]any{"status": 404, "path": "/nowhere\nmsg=forged/", "reason": "not_found"})
	token, _ := auth.NewToken()
	call(t, "GET", url+"/v1/tokens/"+token, "", "")
	one(t, log, "access", map[string]any{"method": "GET", "operation": "getToken"})
	call(t, "GET", url+"/console/nowhere?key=very+secret", "", "")
	one(t, log, "access", map[string]any{"method": "GET", "path": "/console/nowhere", "status": 404})
	call(t, "POST", url+"/console/sign-in", "token="+token, "application/x-www-form-urlencoded")
	one(t, log, "access", map[string]any{"method": "POST", "path": "/console/sign-in", "reason": "unsupported_media_type"})
	for _, never := range []string{"very secret", "very+secret", token} {
		if strings.Contains(log.String(), never) {
			t.Errorf("the log has %q", never)
		}
	}

	_, drains := logging(t, app.RunDrainer(nil), "--redis", redis.URL(), "--egress-allow", "127.0.0.1",
		"--nats", nats.URL(), "--decision-log")
	call(t, "POST", base+"/resume", "", "")
	stop := one(t, drains, "decision", map[string]any{
		"decision": "stopped", "queue": "email", "reason": "throttled", "job": "first",
	})
	if wait := fmt.Sprint(stop["wait"]); !strings.HasSuffix(wait, "h0m0s") && !strings.Contains(wait, "59m") {
		t.Errorf("it stops for %s", wait)
	}
}

// logging is program with its log as JSON.
func logging(t *testing.T, run app.Program, args ...string) (url string, log *transcript.Buffer) {
	t.Helper()
	url, log = program(t, run, append(args, "--log-format", "json")...)
	return url, log
}

// Without the flags neither is written.
func TestNoAccessLog(t *testing.T) {
	redis := redistest.New(t, redistest.Options{})
	url, log := logging(t, app.RunIngress, "--redis", redis.URL(), "--init")
	call(t, "POST", url+"/v1/queues/none/jobs", `{"payload":1}`, "application/json")
	if found := append(records(log, "access"), records(log, "decision")...); len(found) > 0 {
		t.Errorf("%v", found)
	}
}
