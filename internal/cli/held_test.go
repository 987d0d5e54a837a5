package cli

import (
	"strings"
	"testing"

	"github.com/penstock/penstock/queue"
)

// What may have been sent is listed and decided about.
func TestHeld(t *testing.T) {
	store := settled(t, queue.Hold, 3, 4)
	r := expect(t, ExitDone, "HELD", "", "held", "ls", "email")
	if strings.Count(r.out, "421 busy") != 3 || strings.Count(r.out, "550 no such user") != 4 {
		t.Errorf("listed\n%s", r.out)
	}
	if r := expect(
		t, ExitDone, `"id": "550-1"`, "", "job", "ls", "email", "--state", "held", "-o", "json",
	); !strings.Contains(r.out, "421-0") {
		t.Errorf("listed\n%s", r.out)
	}
	expect(t, ExitDone, "7 held for a person", "", "queue", "info", "email")
	expect(t, ExitDone, "held", "", "job", "get", "email", "421-0")
	expect(t, ExitDone, "3 jobs would be released\n", "", "held", "release", "email", "--reason", "busy", "--dry-run")
	expect(t, ExitDone, "1 job released\n", "", "held", "release", "email", "421-0")
	expect(t, ExitDone, "1 job released\n", "", "held", "release", "email", "421-0") // it may be repeated
	expect(t, ExitDone, "1 job marked delivered\n", "", "held", "delivered", "email", "550-0", "--note", "in the log")
	expect(t, ExitRefused, "0 jobs released\n", "1 job left alone: not held", "held", "release", "email", "550-0")
	expect(t, ExitDone, "0 jobs marked dead\n", "", "held", "dead", "email", "--older", "1h", "--yes")
	expect(t, ExitRefused, "", "5 jobs held", "held", "dead", "email", "--reason", "user")
	if r := penstock(
		t, "email\n", "held", "dead", "email", "--reason", "user", "--note", "too late",
	); r.code != ExitDone || r.out != "3 jobs marked dead\n" {
		t.Errorf("%+v", r)
	}
	expect(t, ExitDone, "too late", "", "dead", "ls", "email")
	if i, err := store.Get(t.Context(), "email"); err != nil || i.Held != 2 || i.Waiting != 1 || i.Delivered != 1 ||
		i.Dead != 3 {
		t.Errorf("%+v, %v", i, err)
	}
	expect(t, ExitRefused, "", "no queue", "held", "release", "nobody", "--yes")
}
