package cli

import (
	"strings"
	"testing"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// The info of a queue says how many jobs are at work, which for longest, and with whom.
func TestInfoTellsWhoIsAtWork(t *testing.T) {
	url, store := ingressAndStore(t)
	t.Setenv("PENSTOCK_URL", url)
	if _, err := store.Put(t.Context(), queue.Spec{Name: "email", Rate: leaky.Unlimited}, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	appended(t, store, "email", 3)
	if r := expect(t, ExitDone, "waiting", "", "queue", "info", "email"); strings.Contains(r.out, "in flight") {
		t.Errorf("nothing is at work, but:\n%s", r.out)
	}
	got, err := store.Reserve(t.Context(), queue.ReserveRequest{
		Client: queue.Client{ID: "d", Name: "mailhost:42"}, Max: 2,
	})
	if err != nil || len(got.Jobs) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	r := expect(t, ExitDone, "2, the longest for ", "", "queue", "info", "email")
	if !strings.Contains(r.out, " with mailhost:42") {
		t.Errorf("told\n%s", r.out)
	}
	if r := expect(
		t, ExitDone, `"in_flight"`, "", "queue", "info", "email", "-o", "json",
	); !strings.Contains(r.out, `"drainer": "mailhost:42"`) {
		t.Errorf("told\n%s", r.out)
	}
}
