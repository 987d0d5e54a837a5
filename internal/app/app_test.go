package app_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/redistest"
)

// receiver counts what arrives, by webhook id or body.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	seen map[string]int
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{seen: map[string]int{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.seen[string(body)]++
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) count() (different, all int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.seen {
		all += n
	}
	return len(r.seen), all
}

func call(t *testing.T, method, url, body, contentType string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// The main job, in one process: jobs in over HTTP, out to a receiver.
func TestMainJob(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t, redistest.Options{})
	for name, o := range map[string]store.Options{
		"embedded": {DataPath: t.TempDir()},
		"redis":    {RedisURL: redis.URL(), Init: true, Partitions: 4, Patience: redistest.Patience},
	} {
		t.Run(name, func(t *testing.T) {
			engine, err := store.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			reg := app.NewRegistry()
			in, err := app.NewIngress(engine, app.IngressOptions{
				Listen: ops.Listen{Addr: "127.0.0.1:0"}, ValidateTarget: app.ValidTarget(loopback(t), secrets.Source{}),
				Registry: reg,
			})
			if err != nil {
				t.Fatal(err)
			}
			router := deliver.New(deliver.Options{Egress: loopback(t)})
			out, err := app.NewDrainer(engine, app.DrainerOptions{
				Handler: router, Registry: reg, Drain: drain.Options{Name: "tester", Version: "v0"},
				Listen: ops.Listen{Addr: "127.0.0.1:0"},
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- ops.RunAll(ctx, in.Run, out.Run) }()

			target := newReceiver(t)
			base := in.URL() + "/v1/queues/email"
			if status, text := call(
				t, "PUT", base, `{"rate":"1000/s","deliver":{"http":{"url":"gopher://x"}}}`, "application/json",
			); status != 400 || !strings.Contains(text, `"field":"deliver.http.url"`) {
				t.Errorf("a bad target: %d %s", status, text)
			}
			if status, text := call(
				t, "PUT", base, fmt.Sprintf(`{"rate":"1000/s","slack":"10s","deliver":{"http":{"url":%q}}}`, target.URL),
				"application/json",
			); status != 201 {
				t.Fatalf("%d %s", status, text)
			}
			var lines bytes.Buffer
			for i := range 300 {
				fmt.Fprintf(&lines, "{\"payload\":{\"n\":%d},\"id\":\"j%d\"}\n", i, i)
			}
			status, text := call(t, "POST", base+"/jobs", lines.String(), "application/x-ndjson")
			if status != 200 || strings.Count(text, `"status":202`) != 300 {
				t.Fatalf("%d %.500s", status, text)
			}
			await.Until(t, "all are delivered", func() bool {
				_, text := call(t, "GET", base, "", "")
				var q struct{ Stats struct{ Delivered int } }
				return json.Unmarshal([]byte(text), &q) == nil && q.Stats.Delivered == 300
			})
			if different, all := target.count(); different != 300 || all != 300 {
				t.Errorf("the receiver saw %d jobs, %d of them different", all, different)
			}
			if _, text := call(t, "GET", base+"/jobs/j7", "", ""); !strings.Contains(text, `"state":"delivered"`) {
				t.Errorf("job: %s", text)
			}
			if _, text := call(t, "GET", in.URL()+"/v1/drainers", "", ""); !strings.Contains(
				text, `"name":"tester","version":"v0"`,
			) {
				t.Errorf("drainers: %s", text)
			}
			var page string
			await.Until(t, "the drainer has counted the last delivery", func() bool { // once the store has answered
				_, page = call(t, "GET", in.URL()+"/metrics", "", "")
				return strings.Contains(page, `penstock_deliveries_total{outcome="delivered",queue="email"} 300`)
			})
			for _, want := range []string{
				`penstock_appended_total{outcome="accepted",queue="email"} 300`,
				"penstock_start_lateness_seconds_count ", "penstock_build_info{", "go_goroutines",
			} {
				if !strings.Contains(page, want) {
					t.Errorf("metrics do not have %s", want)
				}
			}
			health := "http://" + out.Addr().String()
			for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
				if status, text := call(t, "GET", health+path, "", ""); status != 200 {
					t.Errorf("drainer's %s: %d %s", path, status, text)
				}
			}
			badInput(t, in.URL())
			stop()
			if err := <-ended; err != nil {
				t.Errorf("stopped with %v", err)
			}
			if err := router.Close(); err != nil {
				t.Error(err)
			}
			if err := engine.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// badInput is what real engines must refuse by themselves, or tell apart.
func badInput(t *testing.T, url string) {
	t.Helper()
	want := func(method, path, body string, status int, part string) {
		t.Helper()
		if got, text := call(t, method, url+path, body, "application/json"); got != status || !strings.Contains(text, part) {
			t.Errorf("%s %.80s %.80s: %d %.300s, want %d and %s", method, path, body, got, text, status, part)
		}
	}
	for _, name := range []string{
		"%7B%7D", "a:b", "a%2Fb", "a..b", "a.b.c", "a%20b", "a%00b", "A", "%FF", ".a", strings.Repeat("a", 65),
		strings.Repeat("a", 10_000),
	} {
		path := "/v1/queues/" + name
		want("POST", path+"/jobs", `{"payload":1}`, 400, `"field":"queue"`)
		want("PUT", path, `{"rate":"1/s"}`, 400, `"field":"name"`)
		want("GET", path, "", 404, `"unknown_queue"`)
		want("GET", path+"/jobs/x", "", 404, `"unknown_queue"`)
		want("DELETE", path, "", 404, `"unknown_queue"`)
		want("POST", path+"/pause", "", 404, `"unknown_queue"`)
		want("POST", path+"/resume", "", 404, `"unknown_queue"`)
	}
	want("GET", "/v1/queues/"+strings.Repeat("a", 200_000), "", 431, `"header_too_large"`)
	for _, name := range []string{"one", "two", "one.child"} {
		path := "/v1/queues/" + name
		want("PUT", path, `{"rate":"1/h","capacity":2}`, 201, `"revision":`)
		want("POST", path+"/pause", "", 200, `"paused":true`)
		want("POST", path+"/jobs", `{"payload":{"a":1},"id":"same"}`, 202, `"position":1`)
		want("POST", path+"/jobs", `{"payload":{"a":1},"id":"same"}`, 200, `"state":"waiting"`)
		want("POST", path+"/jobs", `{"payload":{"a":2},"id":"same"}`, 409, `"conflict"`)
		want("POST", path+"/jobs", `{"payload":{"a":1},"id":"same","cost":2}`, 409, `"conflict"`)
		want("POST", path+"/jobs", `{"payload":1,"id":"other"}`, 202, `"position":2`)
		want("POST", path+"/jobs", `{"payload":1,"id":"third"}`, 429, `"retry_after_ms":`)
		want("POST", path+"/jobs", `{"payload":{"a":1},"id":"same"}`, 200, `"position":1`) // full or not, it is in
		want("POST", path+"/jobs", `{"payload":1,"headers":{"Host":"x"}}`, 400, `"field":"headers.Host"`)
		want("GET", path+"/jobs/third", "", 404, `"unknown_job"`)
		want("DELETE", path, "", 409, `"not_empty"`)
	}
	want("DELETE", "/v1/queues/one?force=true", "", 409, `"has_children"`)
	want("DELETE", "/v1/queues/two?force=true", "", 204, "")
	want("POST", "/v1/queues/two/jobs", `{"payload":1}`, 404, `"unknown_queue"`)
	want("GET", "/v1/queues?limit=2", "", 200, `"next":`)
}

// Stopping does not wait for a stream that goes on for ever, nor for a body that
// never ends, and the store going away is told by readiness.
func TestStopUnderUse(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t, redistest.Options{})
	engine, err := store.Open(t.Context(), store.Options{RedisURL: redis.URL(), Init: true, Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	in, err := app.NewIngress(engine, app.IngressOptions{
		Listen: ops.Listen{Addr: "127.0.0.1:0"}, Server: ops.ServerOptions{Grace: time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }()
	if status, text := call(t, "PUT", in.URL()+"/v1/queues/email", `{"rate":"1/s"}`, "application/json"); status != 201 {
		t.Fatalf("%d %s", status, text)
	}
	for _, contentType := range []string{"application/x-ndjson", "application/json"} {
		body, feed := io.Pipe()
		defer feed.Close()
		req, err := http.NewRequest(http.MethodPost, in.URL()+"/v1/queues/email/jobs", body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", contentType)
		if contentType == "application/json" {
			go func() { // it gets no answer; what it ends with is not looked at
				if resp, err := http.DefaultClient.Do(req); err == nil {
					_ = resp.Body.Close()
				}
			}()
			if _, err := io.WriteString(feed, `{"payload":`); err != nil {
				t.Fatal(err)
			}
			continue
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.WriteString(feed, "{\"payload\":1}\n"); err != nil {
			t.Fatal(err)
		}
		if text, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || !strings.Contains(text, `"status":202`) {
			t.Fatalf("%s, %v", text, err)
		}
	}
	if err := redis.Stop(); err != nil {
		t.Fatal(err)
	}
	if status, text := call(t, "GET", in.URL()+"/readyz", "", ""); status != 503 || !strings.Contains(text, "not_ready") {
		t.Errorf("without a store: %d %s", status, text)
	}
	if status, text := call(
		t, "POST", in.URL()+"/v1/queues/email/jobs", `{"payload":1}`, "application/json",
	); status != 503 && status != 504 {
		t.Errorf("without a store: %d %s", status, text)
	}
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("stopped with %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("it does not stop")
	}
}

// The programs start, say where they listen, and stop when told to.
func TestPrograms(t *testing.T) {
	redis := redistest.New(t, redistest.Options{})
	file := filepath.Join(t.TempDir(), "queues.yaml")
	if err := os.WriteFile(file, []byte("queues:\n  - name: email\n    rate: 14/s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, run := range []func(
		context.Context, []string, io.Writer, io.Writer,
	) error{app.RunIngress, app.RunDrainer(nil)} {
		ctx, stop := context.WithCancel(t.Context())
		logs, w := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			ended <- run(
				ctx,
				[]string{"--redis", redis.URL(), "--init", "--config", file, "--listen", "127.0.0.1:0", "--log-format", "json"},
				io.Discard, w,
			)
			_ = w.Close()
		}()
		said := bufio.NewScanner(logs)
		url := ""
		for url == "" && said.Scan() {
			if m := regexp.MustCompile(`"url":"(http://[^"]+)"`).FindStringSubmatch(said.Text()); m != nil {
				url = m[1]
			}
		}
		go func() { _, _ = io.Copy(io.Discard, logs) }()
		if url == "" {
			t.Fatalf("it does not say where it listens: %v", <-ended)
		}
		await.Until(t, "it is ready", func() bool { // Redis may be late, where the machine is busy
			status, _ := call(t, "GET", url+"/readyz", "", "")
			return status == 200
		})
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	engine, err := store.Open(t.Context(), store.Options{RedisURL: redis.URL(), Patience: redistest.Patience})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	if _, err := engine.Get(t.Context(), "email"); err != nil {
		t.Errorf("the file's queue: %v", err)
	}
}

// loopback lets targets be on this machine.
func loopback(t *testing.T) *egress.Guard {
	t.Helper()
	g, err := egress.New(egress.Loopback...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}
