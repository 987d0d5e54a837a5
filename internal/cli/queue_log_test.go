package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Who did what can be read, and undone, also after the queue was removed, and with a secret that nobody
// is shown.
func TestLogAndRollback(t *testing.T) {
	t.Setenv("PENSTOCK_URL", ingress(t))
	me := userAtHost()
	expect(
		t, ExitDone, "created", "", "queue", "set", "email", "rate=14/s",
		"deliver.http.url=https://a.example.com/send?token=hidden",
	)
	expect(
		t, ExitDone, "rate: 14/s -> 5/s", "", "queue", "set", "email", "rate=5/s",
		"deliver.http.url=https://b.example.com/send",
	)
	expect(t, ExitDone, "paused until", "", "queue", "pause", "email", "--for", "90m", "--reason", "maintenance")
	r := expect(t, ExitDone, "rate: 14/s -> 5/s", "", "queue", "log", "email")
	for _, want := range []string{"created", "changed", "paused", me, "maintenance", "until "} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%q is not in\n%s", want, r.out)
		}
	}
	if strings.Contains(r.out, "hidden") {
		t.Errorf("a secret is shown:\n%s", r.out)
	}
	expect(t, ExitDone, "email would be changed\n", "", "queue", "rollback", "email", "--dry-run")
	expect(t, ExitDone, "rate: 5/s -> 14/s", "", "queue", "rollback", "email")
	expect(t, ExitDone, "rolled_back", "", "queue", "log", "email", "--limit", "1")
	expect(t, ExitRefused, "", "recorded revisions:", "queue", "rollback", "email", "--to", "999999")
	expect(t, ExitUsage, "", "must be one of created", "queue", "log", "email", "--what", "x")
	r = expect(t, ExitDone, "paused", "", "queue", "log", "email", "--what", "paused,purged")
	if strings.Contains(r.out, "created") || !strings.Contains(r.out, "CLAIMED BY") {
		t.Errorf("not only pauses:\n%s", r.out)
	}
	expect(t, ExitDone, "rolled_back", "there are more; continue with --before ", "queue", "log", "email", "--limit", "1")
	expect(t, ExitDone, `"claimed_by": "`+me, "", "queue", "log", "email", "-o", "json")
	expect(t, ExitDone, "", "", "queue", "rm", "email")
	expect(t, ExitDone, "deleted", "", "queue", "log", "email")
	expect(t, ExitDone, "email would be created again", "", "queue", "rollback", "email", "--dry-run")
	expect(t, ExitDone, "email created again", "", "queue", "rollback", "email")
	expect(t, ExitDone, `"url": "https://a.example.com/send?token=***"`, "", "queue", "info", "email", "-o", "json")
	expect(t, ExitRefused, "", "", "queue", "log", "nobody")
}

// What was done to jobs, and to rules, can be read too.
func TestLogOfJobsAndRules(t *testing.T) {
	t.Setenv("PENSTOCK_URL", ingress(t))
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	expect(t, ExitDone, "created", "", "queue", "set", "email", "rate=1/h")
	expect(t, ExitDone, "", "", "push", "email", "-f", file("jobs.ndjson", `{"id":"a","payload":1}
{"id":"b","payload":1}
{"id":"c","payload":1}
`))
	expect(t, ExitDone, "", "", "job", "cancel", "email", "b")
	expect(t, ExitDone, "", "", "queue", "purge", "email", "--yes")
	r := expect(t, ExitDone, "purged", "", "queue", "log", "email")
	for _, want := range []string{"cancelled", " b\n", "waiting\n", "NUMBER"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%q is not in\n%s", want, r.out)
		}
	}
	for _, rate := range []string{"1/s", "2/s"} {
		expect(t, ExitDone, "", "", "rule", "apply", "-f", file(
			"rules.yaml", "rules:\n  - {name: otp.to, algorithm: meter, rate: "+rate+"}\n",
		))
	}
	expect(t, ExitDone, "", "", "rule", "rm", "otp.to")
	r = expect(t, ExitDone, "rate: 1/s -> 2/s", "", "rule", "log", "otp.to")
	for _, want := range []string{"created", "meter: 1/s, 1 at once", "deleted"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%q is not in\n%s", want, r.out)
		}
	}
	expect(t, ExitRefused, "", "", "rule", "log", "nobody")
}
