package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/attend"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/quote"
	"github.com/penstock/penstock/queue/rules"
)

func TestQuote(t *testing.T) {
	url, store := ingressAndStore(t)
	t.Setenv("PENSTOCK_URL", url)
	expect(t, ExitRefused, "", "unknown_queue", "queue", "quote", "email", "--jobs", "5")
	expect(t, ExitDone, "created", "", "queue", "set", "email", "rate=1/h", "capacity=10")
	expect(t, ExitDone, "as things are, no job leaves: each waits for a drainer", "", "queue", "quote", "email", "--jobs",
		"50")
	attend.Queues(t, store)
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
	r := expect(t, ExitDone, "at 1/h  drained in ", "", "queue", "quote", "email", "--rate", "1/d")
	if !strings.Contains(r.out, "\nat 1/d  drained in ") || strings.Contains(r.out, "jobs") {
		t.Error(r.out)
	}
	var q wire.Quote
	r = expect(t, ExitDone, "{", "", "queue", "quote", "email", "--jobs=9", "--cost=2", "--lane=x", "-o", "json")
	if err := json.Unmarshal([]byte(r.out), &q); err != nil || q.Fit != 8 || q.Refused != 1 {
		t.Errorf("%v: %+v", err, q)
	}
	expect(t, ExitDone, "", "", "queue", "pause", "email")
	expect(t, ExitDone, "as things are, no job leaves: each waits for the queue to be resumed", "", "queue", "quote",
		"email", "--jobs=9")
	expect(t, ExitUsage, "", "use --jobs", "queue", "quote", "email")
	expect(t, ExitRefused, "", "jobs: is 0", "queue", "quote", "email", "--jobs=0")
	expect(t, ExitRefused, "", "cost", "queue", "quote", "email", "--jobs=1", "--cost=1001")
}

func TestWhy(t *testing.T) {
	url, store := ingressAndStore(t)
	t.Setenv("PENSTOCK_URL", url)
	expect(t, ExitDone, "created", "", "queue", "set", "email", "rate=1/h")
	if _, err := store.Append(t.Context(), []queue.Job{{Queue: "email", ID: "a"}, {Queue: "email", ID: "b"}}); err != nil {
		t.Fatal(err)
	}
	expect(t, ExitDone, "why       drainer\n", "", "job", "get", "email", "a")
	expect(t, ExitDone, "why       rate\n", "", "job", "get", "email", "b")
	expect(t, ExitDone, "paused", "", "queue", "pause", "email", "--reason", "the provider\tis down")
	expect(t, ExitDone, "why       paused by "+userAtHost()+": the provider is down\n", "", "job", "get", "email", "b")
}

func TestQuoteShowsExpiringJobs(t *testing.T) {
	url, store := ingressAndStore(t)
	t.Setenv("PENSTOCK_URL", url)
	expect(t, ExitDone, "created", "", "queue", "set", "email", "rate=1/s")
	attend.Queues(t, store)
	list := []queue.Job{{Queue: "email", ID: "a"}, {Queue: "email", ID: "b"}, {Queue: "email", ID: "c"}}
	list[1].ExpiresAt = time.Now().Add(time.Hour)
	if _, err := store.Append(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	r := expect(t, ExitDone, "at 1/s   drained ", "", "queue", "quote", "email", "--rate", "1/2h")
	if first, then, _ := strings.Cut(r.out, "\n"); strings.Contains(first, "expire") ||
		!strings.HasSuffix(then, "; 1 of the waiting jobs would expire\n") {
		t.Error(r.out)
	}
	if _, err := store.Append(t.Context(), []queue.Job{{Queue: "email", ID: "d", Lane: "x"}}); err != nil {
		t.Fatal(err)
	}
	expect(t, ExitDone, "; about 1 of the waiting jobs would expire\n", "", "queue", "quote", "email", "--rate", "1/2h")
	expect(t, ExitDone, "expires   "+list[1].ExpiresAt.Local().Format("2006-01-02T15:04"), "", "job", "get", "email", "b")
	if r := expect(t, ExitDone, "EXPIRES", "", "job", "ls", "email"); strings.Count(
		r.out, list[1].ExpiresAt.Local().Format("2006-01-02T15:04"),
	) != 1 {
		t.Error(r.out)
	}
}

func TestTimetable(t *testing.T) {
	url, store := ingressAndStore(t)
	t.Setenv("PENSTOCK_URL", url)
	expect(t, ExitRefused, "", "unknown_queue", "queue", "timetable", "email")
	expect(t, ExitDone, "created", "", "queue", "set", "email", "rate=1/5s")
	expect(t, ExitDone, "0 departures by ", "", "queue", "timetable", "email")
	if _, err := store.Append(t.Context(), []queue.Job{
		{Queue: "email", ID: "a", Lane: "x\x1b[2J"}, {Queue: "email", ID: "b"},
	}); err != nil {
		t.Fatal(err)
	}
	r := expect(t, ExitDone, "no: drainer\n", "", "queue", "timetable", "email", "--for", "10s")
	if !strings.HasPrefix(r.out, "  IN  AT") || strings.Contains(r.out, "\x1b") || !strings.Contains(r.out, "\n5.0s  ") ||
		!strings.Contains(r.out, "\n-                 1       1\n") ||
		!strings.Contains(r.out, "\nstands still: no drainer; ends when a drainer asks for jobs\n2 departures by ") {
		t.Error(r.out)
	}
	var v wire.Timetable
	r = expect(t, ExitDone, "{", "", "queue", "timetable", "email", "--for=4s", "-o", "json")
	if err := json.Unmarshal([]byte(r.out), &v); err != nil || len(v.Departures) != 1 || v.Standstill == nil ||
		v.Departures[0].Why != quote.OfDrainer {
		t.Errorf("%v: %+v", err, v)
	}
	expect(t, ExitDone, "", "", "queue", "pause", "email", "--reason", "why not")
	expect(t, ExitDone, "why not; since 2", "", "queue", "timetable", "email")
	expect(t, ExitRefused, "", "for: is 11m0s, must be", "queue", "timetable", "email", "--for", "11m")
	expect(t, ExitUsage, "", "--interval", "queue", "timetable", "email", "--watch", "--interval=1ms")
	expect(t, ExitUsage, "", "--for", "queue", "timetable", "email", "--for", "1y")
}

// A command waits for its turn, and the exit code reports a turn that is too far off.
func TestTurn(t *testing.T) {
	store := settled(t, queue.Hold, 0, 1)
	rate, err := leaky.ParseRate("1/h")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Put(t.Context(), queue.Spec{Name: "calls", Rate: rate, Pull: true}, 0); err != nil {
		t.Fatal(err)
	}
	expect(t, ExitDone, "waited", "", "queue", "turn", "calls")
	expect(t, ExitRefused, "", "try again in", "queue", "turn", "calls", "--wait", "100ms")
	expect(t, ExitRefused, "", "from 100ms to 1m0s", "queue", "turn", "calls", "--wait", "2m")
	expect(t, ExitRefused, "", "unknown_queue", "queue", "turn", "none")

	rule := rules.Rule{Name: "api", Algorithm: leaky.AlgorithmMeter, Bound: rules.Bound{Rate: leaky.PerSecond(20)}}
	rule.Normalize()
	if _, err := store.PutRule(t.Context(), rule, 0); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		expect(t, ExitDone, "allowed", "", "rule", "take", "api", "--wait", "10s")
	}
	expect(t, ExitUsage, "", "must not be negative", "rule", "take", "api", "--wait=-1s")
}

// The info of a queue says how many jobs are at work, which for longest, and with whom.
func TestInfoShowsJobsInFlight(t *testing.T) {
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

// TestSetLimits: the items of a list are set by their numbers, and shown so when they change.
func TestSetLimits(t *testing.T) {
	url, store := ingressAndStore(t)
	t.Setenv("PENSTOCK_URL", url)
	expect(
		t, ExitDone, "created", "", "queue", "set", "ses", "rate=14/s", "limits.0.quota=50000/d",
		"limits.0.timezone=Europe/Berlin",
	)
	expect(
		t, ExitDone, "  limits.1.burst: (none) -> 100\n  limits.1.rate: (none) -> 500/m\n", "", "queue", "set", "ses",
		"limits.1.rate=500/m", "limits.1.burst=100",
	)
	info, err := store.Get(t.Context(), "ses")
	if err != nil || len(info.Spec.Limits) != 2 || info.Spec.Limits[0].Quota.String() != "50000/d" ||
		info.Spec.Limits[1].Burst != 100 {
		t.Fatalf("%v: %+v", err, info.Spec.Limits)
	}
	expect(t, ExitDone, "  limits.0.quota: 50000/d -> 40000/d\n", "", "queue", "set", "ses", "limits.0.quota=40000/d")
	r := expect(t, ExitDone, "name", "", "queue", "info", "ses")
	for _, want := range []string{"limits        40000/d Europe/Berlin, 500/m burst 100\n"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%q is not in\n%s", want, r.out)
		}
	}
	expect(t, ExitDone, "limits.1.rate: 500/m -> (none)\n", "", "queue", "set", "ses", "limits.1=")
	for _, setting := range []string{"limits.2.rate=1/s", "limits.x.rate=1/s"} {
		expect(t, ExitUsage, "", "items, which start at 0", "queue", "set", "ses", setting)
	}
	for setting, want := range map[string]string{
		"limits.0.quota=0/d": "limits.0.quota", "limits.0.timezone=Mars": "limits.0.timezone",
		"limits.0.rate=5/s": "limits.0", "limits=5": "must be a list", "limits.0.until=5": "not a field",
	} {
		expect(t, ExitRefused, "", want, "queue", "set", "ses", setting)
	}
	expect(t, ExitDone, "limits.0.quota: 40000/d -> (none)\n", "", "queue", "set", "ses", "limits=")
}
