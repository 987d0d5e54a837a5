package cli

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/cli/embedded"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/otlptest"
	"github.com/penstock/penstock/internal/test/redistest"
)

// One process follows its jobs as ingress and drainer do, through its overflow too, and through an export and import.
func TestTraceEmbedded(t *testing.T) {
	spans := otlptest.New(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", spans.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(receiver.Close)
	up := func(data string) (stop func()) {
		url, end, err := embedded.Start(t.Context(), embedded.Options{
			Data: data, Listen: ops.Listen{Addr: "127.0.0.1:0"}, Egress: loopback(t), Log: slog.New(slog.DiscardHandler),
			Patience: redistest.Patience,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("PENSTOCK_URL", url)
		return func() {
			t.Helper()
			if err := end(); err != nil {
				t.Error(err)
			}
		}
	}
	data := t.TempDir()
	stop := up(data)
	for _, name := range []string{"email", "moved"} {
		expect(t, ExitDone, "created", "", "queue", "set", name, "rate=unlimited", "capacity=1", "overflow=defer",
			"slack=10s", "deliver.http.url="+receiver.URL)
		expect(t, ExitDone, "paused", "", "queue", "pause", name)
	}
	file := filepath.Join(t.TempDir(), "jobs.ndjson")
	for i, name := range []string{"email", "email", "moved"} { // one call each, for each is a span
		if err := os.WriteFile(file, fmt.Appendf(nil, "{\"id\":\"j%d\",\"payload\":1}\n", i), 0o600); err != nil {
			t.Fatal(err)
		}
		expect(t, ExitDone, "1 read", "", "push", name, "-f", file)
	}
	if s := spans.One(t, "send email", "j1"); s.Attributes["penstock.job.state"] != "deferred" || s.Service != "penstock" {
		t.Errorf("the append: %+v", s)
	}
	expect(t, ExitDone, "", "", "queue", "resume", "email")
	linked := func(name, id string) {
		t.Helper()
		sent, process := spans.One(t, "send "+name, id), spans.One(t, "process "+name, id)
		if len(process.Links) != 1 || process.Links[0] != sent.Context() || process.Trace == sent.Trace {
			t.Errorf("%s is appended in %s, and delivered as %+v", id, sent.Context(), process)
		}
	}
	linked("email", "j0")
	linked("email", "j1")
	await.Until(t, "nothing is deferred in email", func() bool { // an export refuses deferred jobs
		return strings.Contains(penstock(t, "", "queue", "info", "email", "-o", "json").out, `"deferred": 0`)
	})
	stop()

	archive, other := filepath.Join(t.TempDir(), "archive.ndjson"), t.TempDir()
	expect(t, ExitDone, "", "", "export", "--store", data, "--output", archive)
	text, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	if r := penstock(t, string(text), "import", "--store", other, "--init"); r.code != ExitDone {
		t.Fatalf("import: %+v", r)
	}
	stop = up(other)
	expect(t, ExitDone, "", "", "queue", "resume", "moved")
	linked("moved", "j2")
	stop()
}
