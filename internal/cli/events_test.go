package cli

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/transcript"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

// began starts a command and returns its output. The command must succeed when ctx ends.
func began(ctx context.Context, t *testing.T, args ...string) *transcript.Buffer {
	out, over := &transcript.Buffer{}, make(chan Exit, 1)
	go func() { over <- Run(ctx, args, Streams{In: strings.NewReader(""), Out: out, Err: out}) }()
	t.Cleanup(func() {
		if code := <-over; code != ExitDone {
			t.Errorf("%v: exit %d: %s", args, code, out)
		}
	})
	return out
}

// Events are printed as they happen, also after the stream breaks.
func TestEvents(t *testing.T) {
	e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	s := survey.New(e, survey.Options{})
	server := httptest.NewServer(api.New(e, api.Options{Survey: s}))
	defer server.Close()
	t.Setenv("PENSTOCK_URL", server.URL)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	read := func() {
		t.Helper()
		if err := s.Read(ctx); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, ExitRefused, "", "unknown_queue", "queue", "events", "email")
	expect(t, ExitDone, "created", "", "queue", "set", "email", "rate=1/5s")
	read()

	inTest, end := context.WithCancel(ctx)
	t.Run("", func(t *testing.T) {
		defer end()
		all, lines := began(inTest, t, "events"), began(inTest, t, "events", "-o", "json")
		one := began(inTest, t, "queue", "events", "email", "--figures")
		saw := func(w *transcript.Buffer, text string) {
			t.Helper()
			await.Until(t, text, func() bool { return strings.Contains(w.String(), text) })
		}
		saw(all, "follows    1 queue")
		saw(one, "follows    1 queue")
		saw(lines, `"event":"reset"`)
		if err := e.Pause(ctx, "email", queue.Pause{Reason: "why\x1b not"}); err != nil {
			t.Fatal(err)
		}
		read()
		saw(all, "paused     email  paused")
		if text := all.String(); strings.Contains(text, "\x1b") || !strings.Contains(text, "why") {
			t.Errorf("%q", text)
		}
		saw(lines, `"event":"paused"`)
		server.CloseClientConnections()
		saw(all, "no answer from")
		if _, err := e.Append(ctx, []queue.Job{{Queue: "email", ID: "a"}}); err != nil {
			t.Fatal(err)
		}
		read()
		saw(one, "info       email  1/")
		if err := e.Delete(ctx, "email", queue.AnyRevision, true); err != nil {
			t.Fatal(err)
		}
		read()
		saw(all, "deleted    email\n")
		if n := strings.Count(all.String(), "follows"); n != 1 {
			t.Errorf("it began anew:\n%s", all)
		}
	})
}

func TestHistory(t *testing.T) {
	url, store := ingressAndStore(t)
	t.Setenv("PENSTOCK_URL", url)
	expect(t, ExitDone, "created", "", "queue", "set", "email", "rate=1/5s")
	if _, err := store.Append(t.Context(), []queue.Job{{Queue: "email", ID: "a"}, {Queue: "email", ID: "b"}}); err != nil {
		t.Fatal(err)
	}
	r := expect(t, ExitDone, "in steps of 5s; seen since 2", "", "queue", "history", "email")
	if !strings.Contains(r.out, "\nDEPTH       2     2        2  |") || !strings.Contains(r.out, "█|\n") {
		t.Error(r.out)
	}
	var h wire.History
	r = expect(t, ExitDone, "{", "", "queue", "history", "email", "--window", "24h", "-o", "json")
	if err := json.Unmarshal([]byte(r.out), &h); err != nil || h.Step != 300 || len(h.Values["depth"]) != 288 {
		t.Errorf("%v: %+v", err, h)
	}
	expect(t, ExitRefused, "", "unknown_queue", "queue", "history", "none")
	expect(t, ExitUsage, "", "--window", "queue", "history", "email", "--window", "1h")
}
