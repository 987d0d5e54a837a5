package cli

import (
	"strings"
	"testing"
)

// Who did what can be read, and undone, also after the queue was removed, and with a secret that nobody
// is shown.
func TestLogAndRollback(t *testing.T) {
	t.Setenv("PENSTOCK_URL", ingress(t))
	me := operator()
	expect(t, ExitDone, "made", "", "queue", "set", "email", "rate=14/s", "deliver.http.url=https://a.example.com/send?token=hidden")
	expect(t, ExitDone, "rate: 14/s -> 5/s", "", "queue", "set", "email", "rate=5/s", "deliver.http.url=https://b.example.com/send")
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
	expect(t, ExitRefused, "", "known are", "queue", "rollback", "email", "--to", "999999")
	expect(t, ExitDone, "", "", "queue", "rm", "email")
	expect(t, ExitDone, "deleted", "", "queue", "log", "email")
	expect(t, ExitDone, "email would be made again", "", "queue", "rollback", "email", "--dry-run")
	expect(t, ExitDone, "email made again", "", "queue", "rollback", "email")
	expect(t, ExitDone, `"url": "https://a.example.com/send?token=***"`, "", "queue", "info", "email", "-o", "json")
	expect(t, ExitRefused, "", "", "queue", "log", "nobody")
}
