package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/pty"
	"github.com/penstock/penstock/internal/test/transcript"
	"github.com/penstock/penstock/internal/wire"
)

// A signal ends top, and the terminal is as it was.
func TestTopIsKilled(t *testing.T) {
	s := up(t, "--data", t.TempDir(), "--no-auth")
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT} {
		person, tty := pty.Open(t)
		before := pty.State(t, tty)
		cmd := program(t.Context(), "top", "--server", s.url, "--interval", "50ms")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var shown transcript.Buffer
		go func() {
			buf := make([]byte, 4096)
			for n, err := person.Read(buf); err == nil; n, err = person.Read(buf) {
				_, _ = shown.Write(buf[:n])
			}
		}()
		await.Until(t, "a picture", func() bool { return strings.Contains(shown.String(), "no queues") })
		if pty.State(t, tty) == before {
			t.Error("top has not changed the terminal")
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v", signal, err)
		}
		if after := pty.State(t, tty); after != before {
			t.Errorf("%v: the terminal is left as %+v", signal, after)
		}
		await.Until(t, "the end", func() bool { return strings.HasSuffix(shown.String(), "\x1b[?7h\x1b[?25h\x1b[?1049l") })
	}
}

// A forecast with settings and the same queue with these settings have the same end.
func TestForecastOfAnotherLaneRate(t *testing.T) {
	s := up(t, "--data", t.TempDir(), "--no-auth", "--egress-allow", "127.0.0.1")
	sink := sinking(t)
	penstock := func(args ...string) string {
		t.Helper()
		code, out, errs := run(t, append(args, "--server", s.url)...)
		if code != 0 {
			t.Fatalf("penstock %s: exit %d\n%s%s", strings.Join(args, " "), code, out, errs)
		}
		return out
	}
	file := filepath.Join(t.TempDir(), "mail.ndjson")
	lines := strings.Repeat(`{"payload":1,"lane":"gmail.com"}`+"\n", 3000) +
		strings.Repeat(`{"payload":1,"lane":"gmx.de"}`+"\n", 200)
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	penstock("queue", "set", "mail", "rate=50/s", "lanes.rate=2/s", "deliver.http.url="+sink.url)
	penstock("push", "mail", "-f", file)
	forecast := func(args ...string) (f wire.QueueForecast) {
		t.Helper()
		text := penstock(append([]string{"queue", "forecast", "mail", "-o", "json"}, args...)...)
		if err := json.Unmarshal([]byte(text), &f); err != nil {
			t.Fatal(err)
		}
		return f
	}
	assumed := forecast("--set", "lanes.rate=4/s", "--set", "burst=2")
	text := penstock("queue", "forecast", "mail", "--set", "lanes.rate=4/s")
	if !strings.Contains(text, "\nempty in 12m") || !strings.Contains(text, "\nwithout these settings: empty in 24m") ||
		strings.Contains(text, "arrivals") {
		t.Error(text)
	}
	penstock("queue", "set", "mail", "lanes.rate=4/s", "burst=2")
	then := forecast()
	if assumed.FinishAt == nil || then.FinishAt == nil || assumed.FinishAt.Sub(*then.FinishAt).Abs() > 5*time.Second ||
		assumed.Unchanged == nil || then.Unchanged != nil {
		t.Errorf("assumed %v, then %v", assumed.FinishAt, then.FinishAt)
	}
}
