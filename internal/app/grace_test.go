package app_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/queue"
)

// belowDefaults is less than either program's default grace period, and much more
// than a program takes to stop that grants none.
const belowDefaults = 8 * time.Second

// start runs a program, and returns where it listens and what ends it.
func start(t *testing.T, run app.Program, args ...string) (url string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	logs, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, append(args, "--listen", "127.0.0.1:0", "--log-format", "json"), io.Discard, w)
		_ = w.Close()
	}()
	said := bufio.NewScanner(logs)
	for url == "" && said.Scan() {
		if m := regexp.MustCompile(`"url":"(http://[^"]+)"`).FindStringSubmatch(said.Text()); m != nil {
			url = m[1]
		}
	}
	go func() { _, _ = io.Copy(io.Discard, logs) }()
	if url == "" {
		t.Fatalf("it does not say where it listens: %v", <-ended)
	}
	return url, func() {
		t.Helper()
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("stopped with %v", err)
			}
		case <-time.After(belowDefaults):
			t.Errorf("it goes on for more than %v with --grace 0", belowDefaults)
		}
	}
}

// A grace period of 0 is none, not the default. What was under way is given back.
func TestNoGraceForJobs(t *testing.T) {
	redis := redistest.New(t, redistest.Options{})
	arrived, over := make(chan struct{}, 1), make(chan struct{})
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not notice that the client leaves
		arrived <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-over:
		}
	}))
	defer target.Close()
	defer close(over)
	file := filepath.Join(t.TempDir(), "queues.yaml")
	spec := fmt.Sprintf(
		"queues:\n  - {name: email, rate: unlimited, lease: 10m, deliver: {http: {url: %q, timeout: 5m}}}\n", target.URL,
	)
	if err := os.WriteFile(file, []byte(spec), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stop := start(
		t, app.RunDrainer(nil), "--redis", redis.URL(), "--init", "--config", file, "--grace", "0", "--egress-allow",
		"127.0.0.1",
	)
	engine, err := store.Open(t.Context(), store.Options{RedisURL: redis.URL(), Patience: redistest.Patience})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	if a, err := engine.Append(t.Context(), []queue.Job{{Queue: "email", ID: "1", Payload: []byte("1")}}); err != nil ||
		a[0].Outcome != queue.Accepted {
		t.Fatal(a, err)
	}
	select {
	case <-arrived:
	case <-time.After(30 * time.Second):
		t.Fatal("the job does not arrive")
	}
	stop()
	if j, err := engine.Job(t.Context(), "email", "1"); err != nil || j.State != queue.Waiting || j.Attempts != 0 {
		t.Errorf("the job that was cut off: %+v, %v; want it waiting, with no attempt spent", j, err)
	}
}

func TestNoGraceForRequests(t *testing.T) {
	redis := redistest.New(t, redistest.Options{})
	url, stop := start(t, app.RunIngress, "--redis", redis.URL(), "--init", "--grace", "0")
	if status, text := call(t, "PUT", url+"/v1/queues/email", `{"rate":"1/s"}`, "application/json"); status != 201 {
		t.Fatalf("%d %s", status, text)
	}
	body, feed := io.Pipe()
	req, err := http.NewRequest(http.MethodPost, url+"/v1/queues/email/jobs", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	cut := make(chan struct{})
	go func() {
		defer close(cut)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_ = resp.Body.Close()
		}
	}()
	if _, err := io.WriteString(feed, `{"payload":`); err != nil { // it is read, so the request is under way
		t.Fatal(err)
	}
	stop()
	_ = feed.Close() // the client waits for it before it says that it was cut off
	<-cut
}
