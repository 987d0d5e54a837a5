package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

func TestQuote(t *testing.T) {
	url, store := ingressAndStore(t)
	t.Setenv("PENSTOCK_URL", url)
	expect(t, ExitRefused, "", "unknown_queue", "queue", "quote", "email", "--jobs", "5")
	expect(t, ExitDone, "made", "", "queue", "set", "email", "rate=1/h", "capacity=10")
	expect(
		t, ExitDone,
		"jobs    10 fit, 0 would be deferred, 40 refused (full)\nat 1/h  nothing waits; the first leaves now, the last in ",
		"", "queue", "quote", "email", "--jobs", "50",
	)
	if a, err := store.Append(t.Context(), []queue.Job{
		{Queue: "email", ID: "a"}, {Queue: "email", ID: "b"},
	}); err != nil || a[1].Outcome != queue.Accepted {
		t.Fatalf("%+v, %v", a, err)
	}
	r := expect(t, ExitDone, "at 1/h  backlog drained in ", "", "queue", "quote", "email", "--rate", "1/d")
	if !strings.Contains(r.out, "\nat 1/d  backlog drained in ") || strings.Contains(r.out, "jobs") {
		t.Error(r.out)
	}
	var q wire.Quote
	r = expect(t, ExitDone, "{", "", "queue", "quote", "email", "--jobs=9", "--cost=2", "--lane=x", "-o", "json")
	if err := json.Unmarshal([]byte(r.out), &q); err != nil || q.Fit != 8 || q.Refused != 1 {
		t.Errorf("%v: %+v", err, q)
	}
	expect(t, ExitDone, "", "", "queue", "pause", "email")
	expect(t, ExitDone, "paused", "", "queue", "quote", "email", "--jobs=9")
	expect(t, ExitUsage, "", "give --jobs", "queue", "quote", "email")
	expect(t, ExitRefused, "", "jobs: is 0", "queue", "quote", "email", "--jobs=0")
	expect(t, ExitRefused, "", "cost", "queue", "quote", "email", "--jobs=1", "--cost=1001")
}

func TestWhy(t *testing.T) {
	url, store := ingressAndStore(t)
	t.Setenv("PENSTOCK_URL", url)
	expect(t, ExitDone, "made", "", "queue", "set", "email", "rate=1/h")
	if _, err := store.Append(t.Context(), []queue.Job{{Queue: "email", ID: "a"}, {Queue: "email", ID: "b"}}); err != nil {
		t.Fatal(err)
	}
	expect(t, ExitDone, "why       drainer\n", "", "job", "get", "email", "a")
	expect(t, ExitDone, "why       rate\n", "", "job", "get", "email", "b")
	expect(t, ExitDone, "paused", "", "queue", "pause", "email", "--reason", "the provider\tis down")
	expect(t, ExitDone, "why       paused by "+operator()+": the provider is down\n", "", "job", "get", "email", "b")
}

func TestQuoteTellsWhatExpires(t *testing.T) {
	url, store := ingressAndStore(t)
	t.Setenv("PENSTOCK_URL", url)
	expect(t, ExitDone, "made", "", "queue", "set", "email", "rate=1/s")
	list := []queue.Job{{Queue: "email", ID: "a"}, {Queue: "email", ID: "b"}, {Queue: "email", ID: "c"}}
	list[1].ExpiresAt = time.Now().Add(time.Hour)
	if _, err := store.Append(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	r := expect(t, ExitDone, "at 1/s   backlog drained ", "", "queue", "quote", "email", "--rate", "1/2h")
	if first, then, _ := strings.Cut(r.out, "\n"); strings.Contains(first, "expire") ||
		!strings.HasSuffix(then, "; 1 job of those that wait would expire\n") {
		t.Error(r.out)
	}
	if _, err := store.Append(t.Context(), []queue.Job{{Queue: "email", ID: "d", Lane: "x"}}); err != nil {
		t.Fatal(err)
	}
	expect(t, ExitDone, "; about 1 job of those that wait would expire\n", "", "queue", "quote", "email", "--rate", "1/2h")
	expect(t, ExitDone, "expires   "+list[1].ExpiresAt.Local().Format("2006-01-02T15:04"), "", "job", "get", "email", "b")
	if r := expect(t, ExitDone, "EXPIRES", "", "job", "ls", "email"); strings.Count(
		r.out, list[1].ExpiresAt.Local().Format("2006-01-02T15:04"),
	) != 1 {
		t.Error(r.out)
	}
	if got := expiringOf(&wire.Expiring{Jobs: 7, AtLeast: true}); got != "; at least 7 jobs of those that wait would "+
		"expire" {
		t.Error(got)
	}
}
