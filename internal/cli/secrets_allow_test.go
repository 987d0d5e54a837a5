package cli

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/test/await"
)

// With the embedded engine too a secret goes only where it may; see TestSecretsGoOnlyWhereTheyMay for Redis.
func TestEmbeddedSecretsGoOnlyWhereTheyMay(t *testing.T) {
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
	e, err := openEmbedded(t.Context(), embeddedOptions{
		data: t.TempDir(), listen: ops.Listen{Addr: "127.0.0.1:0"}, egress: loopback(t), secrets: secrets.Source{Dir: dir},
		log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { ended <- e.run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Setenv("PENSTOCK_URL", e.url())
	set := func(code Exit, says, name, url string) {
		t.Helper()
		expect(
			t, code, "", says, "queue", "set", name, "rate=100/s", "slack=10s", "deliver.http.url="+url,
			"deliver.http.headers.X-Key=${secret:KEY}",
		)
	}
	set(ExitDone, "", "own", owner.URL)
	set(ExitRefused, "KEY.allow", "theirs", thief.URL)
	// One that came into the store by another way.
	info, err := e.engine.Get(t.Context(), "own")
	if err != nil {
		t.Fatal(err)
	}
	spec := info.Spec
	spec.Name, spec.Deliver = "planted", fmt.Appendf(
		nil, `{"http":{"url":%q,"headers":{"X-Key":"${secret:KEY}"}}}`, thief.URL,
	)
	if _, err := e.engine.Put(t.Context(), spec, 0); err != nil {
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
