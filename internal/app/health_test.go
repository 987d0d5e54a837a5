package app

import (
	"bufio"
	"io"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/redistest"
)

func fetch(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

var (
	saidAPI    = regexp.MustCompile(`[" ]url=(http://\S+)`)
	saidHealth = regexp.MustCompile(`health_url=(http://\S+)`)
)

// A listener for health and metrics has those and nothing else, the API's then no metrics. After SIGTERM an ingress is
// not ready and serves on; a second one ends it at once.
func TestLameDuck(t *testing.T) {
	server := redistest.New(t, redistest.Options{})
	cmd := program(
		t, "ingress", "--redis", server.URL(), "--init", "--listen", "127.0.0.1:0", "--health-listen", "127.0.0.1:0",
		"--drain-delay", "10m",
	)
	logs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(logs)
	var api, health string
	for (api == "" || health == "") && said.Scan() {
		if m := saidAPI.FindStringSubmatch(said.Text()); m != nil {
			api = m[1]
		}
		if m := saidHealth.FindStringSubmatch(said.Text()); m != nil {
			health = m[1]
		}
	}
	want := func(method, url, body string, status int, text string) {
		t.Helper()
		if got, answer := fetch(t, method, url, body); got != status || !strings.Contains(answer, text) {
			t.Errorf("%s %s: %d %.200s, want %d %s", method, url, got, answer, status, text)
		}
	}
	want("PUT", api+"/v1/queues/email", `{"rate":"1/s"}`, 201, "")
	for _, base := range []string{api, health} {
		want("GET", base+"/healthz", "", 200, `"ok"`)
		want("GET", base+"/readyz", "", 200, `"status"`)
	}
	want("GET", health+"/metrics", "", 200, "penstock_build_info")
	want("GET", api+"/metrics", "", 404, "not_found")
	want("GET", health+"/v1/queues", "", 404, "not_found")
	want("POST", health+"/v1/queues/email/jobs", `{"payload":1}`, 404, "not_found")

	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for said.Scan() && !strings.Contains(said.Text(), "drains") {
	}
	for _, base := range []string{api, health} {
		want("GET", base+"/readyz", "", 503, `"draining"`)
		want("GET", base+"/healthz", "", 200, `"ok"`)
	}
	want("POST", api+"/v1/queues/email/jobs", `{"payload":1}`, 202, `"waiting"`)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for said.Scan() {
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "terminated") {
		t.Errorf("after the second signal it ends with %v", err)
	}
}

// Errors name the flag whose address does not do.
func TestHealthListenIsChecked(t *testing.T) {
	server := redistest.New(t, redistest.Options{})
	for value, want := range map[string]string{
		"8082": "--health-listen \"8082\"", "0.0.0.0:0": "--health-listen 0.0.0.0:0",
	} {
		err := RunIngress(
			t.Context(), []string{"--redis", server.URL(), "--init", "--listen", "127.0.0.1:0", "--health-listen", value},
			io.Discard, io.Discard,
		)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v does not say %q", value, err, want)
		}
	}
}
