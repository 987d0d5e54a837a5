package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock/penstock/queue"
)

func TestBatches(t *testing.T) {
	url, store := ingressAndStore(t)
	t.Setenv("PENSTOCK_URL", url)
	expect(t, ExitDone, "created", "", "queue", "set", "email", "rate=1/h")
	expect(t, ExitDone, "no batches\n", "", "queue", "batches", "email")
	file := filepath.Join(t.TempDir(), "jobs.ndjson")
	lines := `{"id":"a","payload":1}
{"id":"b","payload":1,"batch":"own"}
{"id":"c","payload":1}
`
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, ExitUsage, "", "--in-batch", "push", "email", "-f", file, "--in-batch", strings.Repeat("x", 129))
	expect(t, ExitDone, "3 accepted", "", "push", "email", "-f", file, "--in-batch", "spring")
	expect(t, ExitDone, "spring", "", "job", "get", "email", "a")
	expect(t, ExitDone, "BATCH", "", "job", "ls", "email", "--state", "waiting")
	expect(t, ExitDone, "own", "", "job", "find", "b")
	if s, err := store.Cancel(t.Context(), "email", "c"); err != nil || s != queue.Cancelled {
		t.Fatal(s, err)
	}
	expect(t, ExitDone, "50%", "", "queue", "batch", "email", "spring")
	expect(t, ExitDone, "never: waits for ", "", "queue", "batch", "email", "spring")
	expect(t, ExitDone, "own", "", "queue", "batches", "email", "--limit", "0")
	expect(t, ExitDone, "own", "there are more; list all with --limit 0", "queue", "batches", "email", "--limit", "1")
	expect(t, ExitDone, `"remaining": 1`, "", "queue", "batch", "email", "own", "-o", "json")
	if s, err := store.Cancel(t.Context(), "email", "b"); err != nil || s != queue.Cancelled {
		t.Fatal(s, err)
	}
	expect(t, ExitDone, "ended ", "", "queue", "batch", "email", "own")
	expect(t, ExitRefused, "", "unknown_batch", "queue", "batch", "email", "none")
	expect(t, ExitUsage, "", "--limit -1", "queue", "batches", "email", "--limit=-1")
}
