package cli

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/cli/embedded"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/redistest"
)

// The settings of lanes can be given as fields and as flags, which are the same; the key
// of a lane may have dots.
func TestSetLanes(t *testing.T) {
	url, store := ingressAndStore(t)
	t.Setenv("PENSTOCK_URL", url)
	t.Setenv("PENSTOCK_LANE_RATE", "7/s") // not read
	expect(t, ExitDone, "created", "", "queue", "set", "email", "rate=14/s")
	r := expect(t, ExitDone, "name", "", "queue", "info", "email")
	for _, never := range []string{"limits", "lanes", "overrides"} {
		if strings.Contains(r.out, never) {
			t.Errorf("%s of a queue that has none:\n%s", never, r.out)
		}
	}
	expect(t, ExitDone, "lanes.burst: (none) -> 3\n  lanes.capacity: (none) -> 100\n  lanes.max_in_flight: (none) -> "+
		"4\n  lanes.rate: (none) -> 2/s\n"+
		"  max_in_flight: (none) -> 50\n  max_scheduled: (none) -> 70\n  ordered: (none) -> true\n", "",
		"queue", "set", "email", "--lane-rate", "2/s", "--lane-burst", "3", "--lane-capacity", "100", "--lane-max-in-flight",
		"4",
		"--max-in-flight", "50", "--max-scheduled", "70", "--ordered")
	expect(t, ExitDone, "lanes.overrides.a: (none) -> {}\n  lanes.overrides.gmail.com.capacity: (none) -> 5\n  "+
		"lanes.overrides.gmail.com.rate: (none) -> 10/s\n", "",
		"queue", "set", "email", "lanes.overrides.gmail.com.rate=10/s", "lanes.overrides.gmail.com.capacity=5",
		"lanes.overrides.a={}")
	r = expect(t, ExitDone, "name", "", "queue", "info", "email")
	for _, want := range []string{
		"limits        at most 50 in flight, at most 70 scheduled, ordered: one job of a lane at a time\n",
		"lanes         0 with jobs waiting; each 2/s burst 3, at most 100 jobs, at most 4 in flight\n",
		"overrides     a: no limits; gmail.com: 10/s, at most 5 jobs\n",
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%q is not in\n%s", want, r.out)
		}
	}
	expect(t, ExitDone, "lanes.overrides.a: {} -> (none)\n  lanes.overrides.gmail.com.rate: 10/s -> (none)\n  "+
		"lanes.rate: 2/s -> (none)\n  max_scheduled: 70 -> (none)\n  ordered: true -> (none)\n", "",
		"queue", "set", "email", "lanes.overrides.a=", "lanes.overrides.gmail.com.rate=", "max_scheduled=", "--lane-rate=",
		"--no-ordered")
	expect(t, ExitUsage, "", "the lane has no override; did you mean gmail.com?",
		"queue", "set", "email", "lanes.overrides.gmial.com=")
	expect(t, ExitDone, "", "", "queue", "set", "email", "lanes.overrides.example.com=") // nothing is like it
	info, err := store.Get(t.Context(), "email")
	if err != nil || len(info.Spec.Lanes.Overrides) != 1 || info.Spec.Lanes.Overrides["gmail.com"].Capacity != 5 {
		t.Errorf("%v: %+v", err, info.Spec.Lanes)
	}
	expect(
		t, ExitDone, "lanes.overrides.gmail.com.capacity: 5 -> (none)\n", "", "queue", "set", "email",
		"lanes.overrides.gmail.com=",
	)

	expect(
		t, ExitUsage, "", "--lane-rate and lanes.rate= are the same", "queue", "set", "email", "--lane-rate", "1/s",
		"lanes.rate=1/s",
	)
	for setting, want := range map[string]string{
		"--max-in-flight=0": "leave it out for no limit", "--max-scheduled=-1": "is -1", "--lane-rate=fast": "lanes.rate",
		"--lane-burst=0": "lanes.burst", "--lane-capacity=many": "whole number",
		"ordered=perhaps": "true or false", "lanes.overrides.gmail.com.rate=x": "lanes.overrides.gmail.com.rate",
		"lanes.overrides.rate=1/s": "lanes.overrides.rate", "lanes.share=1": "not a field",
		"lanes.weight=0": "must be from 1 to 1000", "weight=1001": "is 1001",
	} {
		expect(t, ExitRefused, "", want, "queue", "set", "email", setting)
	}
}

// Lanes of a CSV file stand in the column that is named, and where it is empty --lane holds.
func TestPushLaneColumn(t *testing.T) {
	url, store := ingressAndStore(t)
	t.Setenv("PENSTOCK_URL", url)
	expect(t, ExitDone, "", "", "queue", "set", "email", "rate=1/h")
	path := filepath.Join(t.TempDir(), "people.csv")
	if err := os.WriteFile(path, []byte("id,domain,lane\na,a.example,x\nb,,y\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, ExitDone, "2 read: 2 accepted", "", "push", "email", "-f", path, "--lane-column", "domain", "--lane", "rest")
	for id, want := range map[string]string{"a": "a.example", "b": "rest"} {
		if j, err := store.Job(t.Context(), "email", id); err != nil || j.Lane != want {
			t.Errorf("%s: lane %q, %v, want %q", id, j.Lane, err, want)
		}
	}
	expect(t, ExitRefused, "", "(conflict, HTTP 409)", "push", "email", "-f", path) // in no lane, and with another payload
	expect(t, ExitUsage, "", "no lane column \"nobody\"", "push", "email", "-f", path, "--lane-column", "nobody")
	expect(t, ExitUsage, "", "needs a CSV file", "push", "email", "-f", "-", "--lane-column", "domain")
}

// An override without limits differs from no override, and is applied and shown.
func TestApplyLanes(t *testing.T) {
	t.Setenv("PENSTOCK_URL", ingress(t))
	path := filepath.Join(t.TempDir(), "queues.yaml")
	write := func(lanes string) {
		if err := os.WriteFile(path, []byte("queues:\n  - name: email\n    rate: 14/s\n"+lanes), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("    lanes: {rate: 2/s}\n")
	expect(t, ExitDone, "email created", "", "queue", "apply", "-f", path)
	expect(t, ExitDone, "email unchanged", "", "queue", "apply", "-f", path)
	write("    lanes: {rate: 2/s, overrides: {\"gmail.com\": {}}}\n")
	expect(t, ExitDone, "email changed, revision", "", "queue", "apply", "-f", path)
	write("    lanes: {rate: 2/s, overrides: {\"gmail.com\": {rate: 10/s}}}\n")
	expect(
		t, ExitDone, "  lanes.overrides.gmail.com: {} -> (none)\n  lanes.overrides.gmail.com.rate: (none) -> 10/s\n", "",
		"queue", "apply", "-f", path,
	)
	write("    lanes: {rate: 2/s, overrides: {\"gmail.com\": {rate: 0/s}}}\n")
	expect(t, ExitUsage, "", "queues.yaml:4:", "queue", "apply", "-f", path)
	write("    lanes:\n      overrides:\n        gmail.com: {rat: 1/s}\n")
	expect(
		t, ExitUsage, "", "queues.yaml:6:21: queues[0].lanes.overrides.gmail.com.rat: is not a field", "queue", "apply", "-f",
		path,
	)
}

func TestPushLaneFlagsAreChecked(t *testing.T) {
	t.Setenv("PENSTOCK_URL", ingress(t))
	for _, c := range []struct{ want, flag, more string }{
		{"--lane: ", "--lane=" + strings.Repeat("k", 257), ""},
		{"--priority -1: must be from 0 to 9", "--priority=-1", ""},
		{"--priority 10: must be from 0 to 9", "--priority=10", ""},
		{"priority", "--priority=high", ""},
		{`--not-before "2026-12-24T06:00:00": must be an instant such as 07:00`, "--not-before=2026-12-24T06:00:00", ""},
		{`--not-before "-2h": must not be negative`, "--not-before=-2h", ""},
		{"expire before they may leave", "--not-before=2h", "--expires-in=2h"},
	} {
		args := []string{"push", "email", "-f", "-", c.flag}
		if c.more != "" {
			args = append(args, c.more)
		}
		expect(t, ExitUsage, "", c.want, args...)
	}
}

// A file goes into a lane, is scheduled, is seen to be, and leaves when its time has come;
// lanes take turns meanwhile.
func TestLanesLife(t *testing.T) {
	var mu sync.Mutex
	var got []string
	at := map[string]time.Time{}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		id := r.Header.Get("Penstock-Id")
		got, at[id] = append(got, id), time.Now()
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
		t, ExitDone, "created", "", "queue", "set", "email", "rate=100/s", "slack=10s", "deliver.http.url="+receiver.URL,
		"--lane-capacity", "6", "--max-scheduled", "2", "--max-in-flight", "1",
	)
	expect(t, ExitDone, "paused", "", "queue", "pause", "email")
	push := func(code Exit, out string, lines []string, args ...string) result {
		t.Helper()
		r := penstock(t, strings.Join(lines, "\n"), append([]string{"push", "email", "-f", "-"}, args...)...)
		if r.code != code || !strings.Contains(r.out, out) {
			t.Errorf("push %v: exit %d: %s%s", args, r.code, r.out, r.err)
		}
		return r
	}
	var many []string
	for i := range 6 {
		many = append(many, fmt.Sprintf(`{"id":"a%d","payload":%d}`, i, i))
	}
	push(ExitDone, "6 read: 6 accepted", many, "--lane", "a")
	push(ExitDone, "6 duplicate", many, "--lane", "a", "--priority", "4") // jobs that are in keep their priority
	push(ExitRefused, "6 failed", many, "--lane", "other")
	push(
		ExitDone, "2 accepted",
		[]string{`{"id":"b0","payload":0,"lane":"b"}`, `{"id":"b1","payload":1,"lane":"b","priority":9}`}, "--lane", "a",
		"--priority", "1",
	)
	if r := push(
		ExitRefused, "1 refused", []string{`{"id":"a6","payload":6}`}, "--lane", "a", "--no-wait",
	); !strings.Contains(r.err, "-:1: lane: the job's lane is full") {
		t.Error(r.err)
	}
	due := time.Now().Add(time.Second)
	push(
		ExitDone, "1 accepted", []string{`{"id":"s0","payload":0}`}, "--lane", "c", "--not-before",
		due.Format(time.RFC3339Nano),
	)
	push(
		ExitDone, "1 accepted", []string{`{"id":"s1","payload":0,"lane":"c"}`}, "--not-before", "24h", "--expires-in", "48h",
	)
	push(ExitRefused, "1 refused", []string{`{"id":"s2","payload":0}`}, "--not-before", "24h", "--no-wait")
	push(ExitRefused, "1 failed", []string{`{"id":"s3","payload":0}`}, "--not-before", "10000h")

	r := expect(t, ExitDone, "", "", "job", "get", "email", "b0")
	for _, want := range []string{"lane      b\n", "position  2\n", "priority  1\n"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%q is not in\n%s", want, r.out)
		}
	}
	r = expect(t, ExitDone, "scheduled", "", "job", "get", "email", "s1")
	if !strings.Contains(r.out, "lane      c\n") || !strings.Contains(r.out, "due       20") ||
		strings.Contains(r.out, "position") {
		t.Error(r.out)
	}
	expect(t, ExitDone, `"lane": "b"`, "", "job", "get", "email", "b1", "-o", "json")
	expect(t, ExitDone, "lanes         2 with jobs waiting; each at most 6 jobs\n", "", "queue", "info", "email")

	expect(t, ExitDone, "email is", "", "queue", "resume", "email")
	for begun := time.Now(); ; await.Pause(begun) {
		out := penstock(t, "", "queue", "info", "email").out
		if strings.Contains(out, "9 delivered") {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("not there in 60 s:\n%s", out)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if at["s0"].Before(due) {
		t.Errorf("s0 came at %v, before %v", at["s0"], due)
	}
	got = slices.DeleteFunc(got, func(id string) bool { return id == "s0" })
	lane := func(name string) (ids []string) {
		for _, id := range got {
			if id[:1] == name {
				ids = append(ids, id)
			}
		}
		return ids
	}
	if !slices.Equal(lane("a"), []string{"a0", "a1", "a2", "a3", "a4", "a5"}) ||
		!slices.Equal(lane("b"), []string{"b1", "b0"}) {
		t.Errorf("they came as %v", got)
	}
	// Lanes take turns: the jobs of b are among the first four.
	if n := max(slices.Index(got, "b0"), slices.Index(got, "b1")); n > 3 {
		t.Errorf("b had to wait for all of a: %v", got)
	}
	expect(t, ExitDone, "s1 is cancelled\n", "", "job", "cancel", "email", "s1")
}
