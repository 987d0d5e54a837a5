package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/replay"
)

const exampleLog = "../../examples/access.log"

// The page docs/cli.md shows the most of it.
func TestReplay(t *testing.T) {
	r := expect(t, ExitDone, "", exampleLog+":98: is not as HOST", "replay", "--log", exampleLog, "--rule",
		"meter rate=2/s burst=10", "--rule", "meter rate=2/s burst=30",
		"--rule", "fixed_window limit=60 period=1m", "--queue", "rate=3/s capacity=50")
	want, err := os.ReadFile("testdata/replay.txt")
	if err != nil {
		t.Fatal(err)
	}
	if r.out != string(want) {
		t.Errorf("it prints\n%s\nwant\n%s", r.out, want)
	}
}

func TestReplayJSON(t *testing.T) {
	r := expect(
		t, ExitDone, "", "", "replay", "--log", exampleLog, "--rule", "gap period=1s key={path}", "--rule",
		"gap period=1s key=", "-o", "json",
	)
	var report replay.Report
	if err := json.Unmarshal([]byte(r.out), &report); err != nil {
		t.Fatal(err)
	}
	if report.Requests != 269 || report.Broken != 1 || report.Rules[0].Key != "{path}" || report.Rules[0].Keys != 24 ||
		report.Rules[1].Keys != 1 || len(report.Timeline.Steps) == 0 {
		t.Errorf("%.600s", r.out)
	}
}

func TestReplayFromStandardInput(t *testing.T) {
	chart := filepath.Join(t.TempDir(), "chart.HTML")
	r := penstock(t, "when,tenant,units\n2026-10-05 09:00:00,a,3\n2026-10-05 09:00:01,a,3\n", "replay", "--log", "-",
		"--key", "tenant", "--time", "when", "--cost", "units",
		"--timezone", "Europe/Berlin", "--rule", "token_bucket rate=1/s burst=5", "--chart", chart)
	if r.code != ExitDone || !strings.Contains(r.out, "from 2026-10-05T07:00:00Z") ||
		!strings.Contains(r.out, "at most 3 of one key in 1s; nothing refused") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	picture, err := os.ReadFile(chart)
	if err != nil || !strings.HasPrefix(string(picture), "<!DOCTYPE html>") {
		t.Errorf("%v, %.100s", err, picture)
	}
	for _, want := range []string{"Replay of standard input", "2026-10-05 07:00:00 to 2026-10-05 07:00:01, UTC"} {
		if !strings.Contains(string(picture), want) {
			t.Errorf("the picture does not say %q", want)
		}
	}
}

func TestReplayOfOneRequest(t *testing.T) {
	r := penstock(
		t, "when,tenant\n2026-10-05 09:00:00,a\n", "replay", "--log", "-", "--key", "tenant", "--time", "when", "--rule",
		"gap period=1s",
	)
	if r.code != ExitDone || !strings.HasPrefix(r.out, "1 request from 2026-10-05T09:00:00Z") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
}

func TestReplayUsage(t *testing.T) {
	for want, args := range map[string][]string{
		"missing flags: --log=FILE":            {"--rule", "gap period=1s"},
		"nothing to try":                       {"--log", exampleLog},
		"no such file":                         {"--log", "nothing.log", "--rule", "gap period=1s"},
		"it is a directory":                    {"--log", ".", "--rule", "gap period=1s"},
		"begins with one of":                   {"--log", exampleLog, "--rule", "leaky rate=1/s"},
		"must be a time zone":                  {"--log", exampleLog, "--rule", "gap period=1s", "--timezone=Middle/Earth"},
		"must end in .html":                    {"--log", exampleLog, "--rule", "gap period=1s", "--chart", "x.gif"},
		"no such file or directory":            {"--log", exampleLog, "--rule", "gap period=1s", "--chart", "nowhere/x.html"},
		"standard input can be read only once": {"--log", "-", "--log", "-", "--rule", "gap period=1s"},
		"key: is given twice":                  {"--log", exampleLog, "--rule", "gap period=1s key={path} key={method}"},
		"lease is not supported":               {"--log", exampleLog, "--queue", "rate=1/s lease=1s"},
		"{ip} is no field of a combined log":   {"--log", exampleLog, "--rule", "gap period=1s", "--key", "ip"},
		"none of 269 lines has the key":        {"--log", exampleLog, "--rule", "gap period=1s", "--key", "user"},
		"is no JSON pointer": {
			"--log", "../../examples/messages.ndjson", "--rule", "gap period=1s", "--key", "to", "--time", "/at",
		},
		"--time must say which is the time": {"--log", "../../examples/messages.csv", "--rule", "gap period=1s"},
	} {
		expect(t, ExitUsage, "", want, append([]string{"replay"}, args...)...)
	}
}

// TestReplayChart: a chart that cannot be written is found out before the log is read, and one that was there stays
// until the new one is.
func TestReplayChart(t *testing.T) {
	dir := t.TempDir()
	expect(
		t, ExitUsage, "", "--chart: open", "replay", "--log", "-", "--rule", "gap period=1s", "--chart",
		filepath.Join(dir, "nowhere", "x.html"),
	)
	for name, there := range map[string]bool{"old.html": true, "new.html": false} {
		chart := filepath.Join(dir, name)
		if there {
			if err := os.WriteFile(chart, []byte("the one before"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if r := penstock(
			t, "no log", "replay", "--log", "-", "--format", "combined", "--rule", "gap period=1s", "--chart", chart,
		); r.code != ExitUsage || !strings.Contains(r.err, "none of 1 lines") {
			t.Errorf("exit %d\n%s", r.code, r.err)
		}
		if got, err := os.ReadFile(chart); (err == nil) != there || there && string(got) != "the one before" {
			t.Errorf("%s after a run that failed: %q, %v", name, got, err)
		}
	}

	link, chart := filepath.Join(dir, "link.html"), filepath.Join(dir, "behind.html")
	if err := os.Symlink(chart, link); err != nil {
		t.Fatal(err)
	}
	expect(t, ExitDone, "", "", "replay", "--log", exampleLog, "--rule", "gap period=1s", "--chart", link)
	if got, err := os.ReadFile(chart); err != nil || len(got) == 0 {
		t.Errorf("through a link came %d bytes: %v", len(got), err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode().IsRegular() {
		t.Errorf("the link is one no more: %v", err)
	}
	device := filepath.Join(dir, "device.html")
	if err := os.Symlink(os.DevNull, device); err != nil {
		t.Fatal(err)
	}
	expect(t, ExitDone, "", "", "replay", "--log", exampleLog, "--rule", "gap period=1s", "--chart", device)
	if info, err := os.Stat(device); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		t.Fatalf("the device is one no more: %v, %v", info, err)
	}
}

func TestReplayCompletion(t *testing.T) {
	for _, flag := range []string{"--log", "--rule", "--chart"} {
		expect(t, ExitDone, ":files", "", "complete", "zsh", "--", "replay", flag, "")
	}
	expect(t, ExitDone, "combined\nndjson\ncsv\n", "", "complete", "zsh", "--", "replay", "--format", "")
}
