package cli

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/cli/embedded"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/test/await"
)

// A queue with the server's own API as its target would let its author do everything that the API can: here, empty
// another queue. This is refused, whatever is allowed and by any name or address of this machine.
func TestTargetsNeverReachOwnListener(t *testing.T) {
	for _, listen := range []ops.Listen{{Addr: "127.0.0.1:0"}, {Addr: "0.0.0.0:0", Insecure: true}} {
		t.Run(listen.Addr, func(t *testing.T) {
			guard := loopback(t)
			url, stop, err := embedded.Start(t.Context(), embedded.Options{
				Data: t.TempDir(), Listen: listen, Egress: guard, Log: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
			t.Setenv("PENSTOCK_URL", url)
			_, port, _ := strings.Cut(strings.TrimPrefix(url, "http://"), ":")
			expect(t, ExitDone, "created", "", "queue", "set", "victim", "rate=1/h")
			expect(t, ExitDone, "paused", "", "queue", "pause", "victim")
			if r := penstock(t, `{"id":"1","payload":1}`, "push", "victim", "-f", "-"); r.code != ExitDone {
				t.Fatal(r.err)
			}
			hosts := []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]"}
			if listen.Insecure {
				hosts = append(hosts, "127.8.8.8")
			}
			for _, host := range hosts {
				expect(
					t, ExitRefused, "", "this process listens", "queue", "set", "thief", "rate=10/s",
					"deliver.http.url=http://"+net.JoinHostPort(strings.Trim(host, "[]"), port)+"/v1/queues/victim/purge",
				)
			}
			if info := expect(
				t, ExitDone, "", "", "queue", "info", "victim", "-o", "json",
			); !strings.Contains(info.out, `"waiting": 1`) {
				t.Error(info.out)
			}
		})
	}
}

// An allowed target on this machine is reached if it is another process.
func TestTargetsReachOtherPorts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	url, stop, err := embedded.Start(t.Context(), embedded.Options{
		Data: t.TempDir(), Listen: ops.Listen{Addr: "127.0.0.1:0"}, Egress: loopback(t), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stop() })
	t.Setenv("PENSTOCK_URL", url)
	expect(
		t, ExitDone, "created", "", "queue", "set", "email", "rate=10/s",
		fmt.Sprintf("deliver.http.url=http://%s/", l.Addr()),
	)
	if r := penstock(t, `{"id":"1","payload":1}`, "push", "email", "-f", "-"); r.code != ExitDone {
		t.Fatal(r.err)
	}
	arrived := make(chan struct{})
	go func() {
		if c, err := l.Accept(); err == nil {
			_ = c.Close()
			close(arrived)
		}
	}()
	await.Until(t, "the other port is connected to", func() bool {
		select {
		case <-arrived:
			return true
		default:
			return false
		}
	})
}

// With the embedded engine, too, a secret is sent only to allowed hosts; see TestSecretsGoOnlyWhereTheyMay for Redis.
func TestEmbeddedSecretsGoOnlyToAllowedHosts(t *testing.T) {
	var arrived, stolen atomic.Int64
	counts := func(n *atomic.Int64) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Key") == "hunter2" {
				n.Add(1)
			}
		}))
		t.Cleanup(s.Close)
		return s
	}
	owner, thief := counts(&arrived), counts(&stolen)
	dir := t.TempDir()
	for name, text := range map[string]string{"KEY": "hunter2", "KEY.allow": strings.TrimPrefix(owner.URL, "http://")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e, err := embedded.Open(t.Context(), embedded.Options{
		Data: t.TempDir(), Listen: ops.Listen{Addr: "127.0.0.1:0"}, Egress: loopback(t), Secrets: secrets.Source{Dir: dir},
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { ended <- e.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Setenv("PENSTOCK_URL", e.URL())
	set := func(code Exit, says, name, url string) {
		t.Helper()
		expect(
			t, code, "", says, "queue", "set", name, "rate=100/s", "slack=10s", "deliver.http.url="+url,
			"deliver.http.headers.X-Key=${secret:KEY}",
		)
	}
	set(ExitDone, "", "own", owner.URL)
	set(ExitRefused, "KEY.allow", "theirs", thief.URL)
	// A queue that was put into the store directly.
	info, err := e.Engine.Get(t.Context(), "own")
	if err != nil {
		t.Fatal(err)
	}
	spec := info.Spec
	spec.Name, spec.Deliver = "planted", fmt.Appendf(
		nil, `{"http":{"url":%q,"headers":{"X-Key":"${secret:KEY}"}}}`, thief.URL,
	)
	if _, err := e.Engine.Put(t.Context(), spec, 0); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"own": "delivered", "planted": "KEY.allow"} {
		if r := penstock(t, `{"id":"1","payload":1}`, "push", name, "-f", "-"); r.code != ExitDone {
			t.Fatal(r.err)
		}
		await.Until(t, name+" is done", func() bool {
			return strings.Contains(penstock(t, "", "job", "get", name, "1").out, want)
		})
	}
	if arrived.Load() != 1 || stolen.Load() != 0 {
		t.Errorf("%d arrived, %d were stolen", arrived.Load(), stolen.Load())
	}
}
