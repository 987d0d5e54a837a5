package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/cli/embedded"
	"github.com/penstock/penstock/internal/cli/pushcmd"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/redistest"
)

// The settings of the overflow can be given as fields and as flags, which are the same.
func TestSetOverflow(t *testing.T) {
	url, store := ingressAndStore(t)
	t.Setenv("PENSTOCK_URL", url)
	t.Setenv("PENSTOCK_OVERFLOW", "defer") // push's, and no queue's
	expect(t, ExitUsage, "", "no settings given", "queue", "set", "email")
	expect(
		t, ExitDone, "created", "", "queue", "set", "email", "rate=1/s", "deferred.low_water=0.25",
		"deliver.http.headers.X-Version=1.50",
	)
	expect(t, ExitDone, "deferred.max_age: 24h0m0s -> 6h0m0s\n  deferred.max_jobs: 1000000 -> 70\n"+
		"  deferred.readmit_between: (none) -> 22:00-06:00\n  deferred.timezone: (none) -> Europe/Berlin\n", "",
		"queue", "set", "email", "--max-age", "6h", "--max-deferred", "70", "--readmit-between", "22:00-06:00", "--timezone",
		"Europe/Berlin")
	expect(
		t, ExitDone, "deferred.low_water: 0.25 -> 0.75\n  rate: 1/s -> 2/s\n", "", "queue", "set", "email", "--low-water",
		".75", "rate=2/s",
	)
	expect(t, ExitDone, "deferred.low_water: 0.75 -> 0.5\n  deferred.readmit_between: 22:00-06:00 -> (none)\n  "+
		"deferred.timezone: Europe/Berlin -> (none)\n", "",
		"queue", "set", "email", "--low-water=", "--readmit-between=", "deferred.timezone=")
	info, err := store.Get(t.Context(), "email")
	if err != nil || !strings.Contains(string(info.Spec.Deliver), `"1.50"`) {
		t.Errorf("%v: %s", err, info.Spec.Deliver)
	}

	expect(
		t, ExitUsage, "", "--max-age and deferred.max_age= are the same", "queue", "set", "email", "--max-age", "1h",
		"deferred.max_age=1h",
	)
	expect(t, ExitRefused, "", "start it with --nats", "queue", "set", "email", "--overflow", "defer")
	for flag, want := range map[string]string{
		"--overflow=some": "reject or defer", "--max-age=soon": "not a duration",
		"--max-age=48h": "longer than retention.for", "--low-water=half": "must be a number",
		"--low-water=1": "between 0 and 1", "--low-water=-1": "between 0 and 1", "--max-deferred=0": "from 1",
		"--max-deferred=many":    "whole number",
		"--readmit-between=22-6": "two times of day", "--timezone=Europe/Berlin": "without deferred.readmit_between",
	} {
		expect(t, ExitRefused, "", want, "queue", "set", "email", flag)
	}
	expect(t, ExitRefused, "", "IANA", "queue", "set", "email", "--readmit-between", "22:00-06:00", "--timezone", "Mars")
}

func TestPushOverflowFlags(t *testing.T) {
	url, _ := ingressAndStore(t)
	t.Setenv("PENSTOCK_URL", url)
	expect(t, ExitDone, "created", "", "queue", "set", "email", "rate=1/h", "capacity=5")
	expect(t, ExitUsage, "", "--overflow", "push", "email", "-f", "-", "--overflow", "perhaps")
	for _, never := range []string{"0", "0s", "-1h"} {
		expect(t, ExitUsage, "", "must be positive", "push", "email", "-f", "-", "--expires-in="+never)
	}
	r := penstock(
		t, "{\"payload\":1}\n{\"payload\":2,\"overflow\":\"reject\"}\n", "push", "email", "-f", "-", "--overflow", "defer",
		"-o", "json",
	)
	var report pushcmd.Report
	if err := json.Unmarshal([]byte(r.out), &report); err != nil || r.code != ExitRefused || report.Accepted != 1 ||
		report.Failed != 1 || !strings.Contains(r.err, "-:1: overflow: is defer, but this ingress has no NATS") {
		t.Errorf("%v, %+v", err, r)
	}
}

// What finds no room is deferred, is seen to be, can be cancelled, and comes back.
func TestOverflowLife(t *testing.T) {
	var mu sync.Mutex
	got := map[string]int{}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got[string(body)]++
	}))
	t.Cleanup(receiver.Close)
	url, stop, err := embedded.Start(t.Context(), embedded.Options{
		Data: t.TempDir(), Listen: ops.Listen{Addr: "127.0.0.1:0"}, Egress: loopback(t), Log: slog.New(slog.DiscardHandler),
		// a disk that is slow to commit is not what this is about: then push asks again, and its jobs are duplicates
		Patience: redistest.Patience,
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
	expect(
		t, ExitDone, "created", "", "queue", "set", "email", "rate=unlimited", "capacity=4", "deliver.http.url="+receiver.URL,
		"--max-deferred", "100",
	)
	expect(t, ExitDone, "reject", "", "queue", "info", "email")
	expect(t, ExitDone, "paused", "", "queue", "pause", "email")

	file := filepath.Join(t.TempDir(), "jobs.ndjson")
	var jobs strings.Builder
	for i := range 10 {
		fmt.Fprintf(&jobs, "{\"id\":\"j%d\",\"payload\":%d}\n", i, i)
	}
	if err := os.WriteFile(file, []byte(jobs.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(
		t, ExitRefused, "10 read: 4 accepted, 0 duplicate, 6 refused, 0 failed\n", "", "push", "email", "-f", file,
		"--no-wait",
	)
	expect(
		t, ExitDone, "10 read: 0 accepted, 6 deferred, 4 duplicate, 0 refused, 0 failed\n", "", "push", "email", "-f", file,
		"--overflow", "defer", "--expires-in", "24h",
	)
	expect(t, ExitDone, "overflow: reject -> defer", "", "queue", "set", "email", "--overflow", "defer")

	// The number of deferred jobs is approximate: it includes what was seen on the overflow.
	if table := expect(t, ExitDone, "DEFERRED", "", "queue", "ls").out; !regexp.MustCompile(
		`LEASED  HELD  DEFERRED  DEAD .*\nemail +unlimited +4/4 +4 +[01] +0 +0 +0 +([6-9]|1[0-2]) +0 `,
	).MatchString(table) {
		t.Error(table)
	}
	expect(t, ExitDone, " now; since created 6 deferred, 0 readmitted", "", "queue", "info", "email")
	const overflow = "defer; at most 100 deferred for 24h0m0s, readmitted into 2 of 4 places"
	expect(t, ExitDone, overflow, "", "queue", "info", "email")
	r := expect(t, ExitDone, "deferred", "", "job", "get", "email", "j9")
	for _, want := range []string{"state     deferred", "position  about 10", "deferred  20"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%q is not in\n%s", want, r.out)
		}
	}
	for range 2 {
		expect(t, ExitDone, "j9 is cancelled\n", "", "job", "cancel", "email", "j9")
	}
	expect(t, ExitDone, `"state": "cancelled"`, "", "job", "cancel", "email", "j9", "-o", "json")
	expect(t, ExitDone, "cancelled", "", "job", "get", "email", "j9")
	expect(t, ExitRefused, "", "unknown_job", "job", "cancel", "email", "j10")
	expect(t, ExitRefused, "", "unknown_queue", "job", "cancel", "sms", "j1")
	expect(t, ExitRefused, "", " deferred and was not deleted", "queue", "rm", "email")
	if r := penstock(t, "no\n", "queue", "rm", "email", "--force"); r.code != ExitRefused ||
		!strings.Contains(r.err, "holds 4 jobs, has ") || !strings.Contains(r.err, " deferred, which will be lost") {
		t.Errorf("%+v", r)
	}
	path, write := fileOf(t)
	write()
	expect(
		t, ExitRefused, "email is not in the file, but holds 4 jobs, has ", "",
		"queue", "apply", "-f", path, "--prune", "--yes",
	)
	expect(
		t, ExitDone, "email would be deleted: it holds 4 jobs, has ", "", "queue", "apply", "-f", path, "--prune", "--force",
		"--dry-run",
	)
	expect(t, ExitDone, "10 read: 0 accepted, 10 duplicate, 0 refused, 0 failed\n", "", "push", "email", "-f", file)
	expect(t, ExitDone, "\"deferred\": 0,\n  \"duplicate\": 10", "", "push", "email", "-f", file, "-o", "json")

	expect(t, ExitDone, "email is", "", "queue", "resume", "email")
	for begun := time.Now(); ; await.Pause(begun) {
		out := penstock(t, "", "queue", "info", "email").out
		if strings.Contains(out, "0 now; since created 6 deferred, 5 readmitted") && strings.Contains(out, "9 delivered") {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("not back in 60 s:\n%s", out)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(got) != 9 || got["9"] != 0 {
		t.Errorf("received %v, want 0 to 8", got)
	}
	expect(t, ExitRefused, "", "it is delivered (not_cancellable, HTTP 409)", "job", "cancel", "email", "j8")
	expect(t, ExitDone, "1 cancelled, 0 expired", "", "queue", "info", "email")
}
