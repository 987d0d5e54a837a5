package app_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/await"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/store"
)

// shared is a buffer that many write to.
type shared struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) { s.mu.Lock(); defer s.mu.Unlock(); return s.b.Write(p) }

func (s *shared) String() string { s.mu.Lock(); defer s.mu.Unlock(); return s.b.String() }

// Secrets are planted wherever a target can have some, receivers send back whatever they get, in all ways that they can, and what
// all of it leaves behind is searched.
func TestSecretsAreNowhere(t *testing.T) {
	key := base64.StdEncoding.EncodeToString([]byte("hunter2-" + strings.Repeat("k", 24)))
	dir := t.TempDir()
	for name, value := range map[string]string{"FILE": "hunter2-file", "PATH": "hunter2-path", "KEY": "whsec_" + key} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PENSTOCK_SECRET_VARIABLE", "hunter2-variable")

	var log shared
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	app.QuietHTTP(logger)
	t.Cleanup(func() { stdlog.SetOutput(os.Stderr); stdlog.SetFlags(stdlog.LstdFlags) })
	engine, err := store.Open(t.Context(), store.Options{DataPath: t.TempDir(), Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	reg := app.NewRegistry()
	in, err := app.NewIngress(engine, app.IngressOptions{Listen: ops.Listen{Addr: "127.0.0.1:0"}, ValidateTarget: app.ValidTarget(loopback(t)), Registry: reg, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	router := deliver.New(deliver.Options{Egress: loopback(t), Secrets: secrets.Source{Dir: dir}, Logger: logger})
	out, err := app.NewDrainer(engine, app.DrainerOptions{Handler: router, Registry: reg, Listen: ops.Listen{Addr: "127.0.0.1:0"}, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- ops.RunAll(ctx, in.Run, out.Run) }()

	refuses := echoes(t, func(string) string { return "HTTP/1.1 410 Gone\r\nConnection: close\r\n\r\n" })
	babbles := echoes(t, func(string) string { return "" })
	overdoes := echoes(t, func(got string) string { return "HTTP/1.1 204 No\r\n\r\n" + got })
	stranger := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	stranger.Config.ErrorLog = stdlog.New(io.Discard, "", 0)
	defer stranger.Close()
	var said strings.Builder
	tell := func(method, path, body string, want int) string {
		status, text := call(t, method, in.URL()+path, body, "application/json")
		if status != want {
			t.Errorf("%s %s: %d %s", method, path, status, text)
		}
		said.WriteString(text)
		return text
	}
	for name, target := range map[string]string{"refuses": refuses, "babbles": babbles, "overdoes": overdoes, "stranger": stranger.URL} {
		tell("PUT", "/v1/queues/"+name, fmt.Sprintf(`{"rate":"100/s","slack":"10s","retry":{"max_attempts":1},"deliver":{"http":{"url":"%s/${secret:PATH}?token=hunter2-query&a=${secret:VARIABLE}",
			"headers":{"Authorization":"Bearer hunter2-header","X-Api-Key":"${secret:FILE}"},"signing":{"secret":"${secret:KEY}","previous_secret":"whsec_%s"}}}}`, target, key), 201)
		tell("POST", "/v1/queues/"+name+"/jobs", `{"id":"1","payload":1,"headers":{"X-Tenant-Token":"hunter2-job"}}`, 202)
	}
	for _, bad := range []string{
		`{"url":"http://u:hunter2-user@a/"}`, `{"url":"http://u:hunter2-user@10.0.0.1/?a=hunter2"}`, `{"url":"gopher://a/?a=hunter2"}`, `{"url":"http://10.0.0.1/?a=hunter2"}`,
		`{"url":"http://a/","signing":{"secret":"hunter2"}}`, `{"url":"http://a/","tls":{"cert":"hunter2","key":"hunter2"}}`, `{"url":"http://a/","headers":{"X-Key":"hunter2\n"}}`,
	} {
		tell("PUT", "/v1/queues/bad", `{"rate":"1/s","deliver":{"http":`+bad+`}}`, 400)
	}
	for name, state := range map[string]string{"refuses": "dead", "babbles": "dead", "overdoes": "delivered", "stranger": ""} {
		await.Until(t, name+" has answered", func() bool {
			text := tell("GET", "/v1/queues/"+name+"/jobs/1", "", 200)
			return strings.Contains(text, `"state":"`+state) && (state != "" || strings.Contains(text, "certificate"))
		})
		for _, path := range []string{"", "/jobs?state=dead", "/jobs?state=waiting", "/changes"} {
			tell("GET", "/v1/queues/"+name+path, "", 200)
		}
	}
	for _, path := range []string{"/v1/queues", "/v1/dead", "/metrics", "/readyz"} {
		tell("GET", path, "", 200)
	}
	_, page := call(t, "GET", "http://"+out.Addr().String()+"/metrics", "", "")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	_, _ = router.Close(), engine.Close()
	for where, text := range map[string]string{"the API": said.String(), "the drainer's metrics": page, "the log": log.String()} {
		for _, secret := range []string{"hunter2", key, url.QueryEscape(key)} {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("%s has a secret: ...%s...", where, text[max(0, i-300):min(len(text), i+100)])
			}
		}
	}
	if !strings.Contains(said.String(), "${secret:FILE}") || !strings.Contains(said.String(), "the receiver answered 410: ") {
		t.Errorf("the search would find nothing:\n%s", said.String())
	}
}

// echoes is a receiver that sends back, behind what answer makes of it, all that it gets.
func echoes(t *testing.T, answer func(got string) string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				b := make([]byte, 64<<10)
				n, _ := c.Read(b)
				got := "hunter2-file hunter2-path hunter2-variable " + string(b[:n])
				_, _ = io.WriteString(c, answer(got)+got)
			})
		}
	})
	return "http://" + l.Addr().String()
}
