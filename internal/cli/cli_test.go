package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/cli/applycmd"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

// ingress serves the API over an embedded engine that nobody drains.
func ingress(t *testing.T) (url string) {
	t.Helper()
	url, _ = ingressAndStore(t)
	return url
}

func ingressAndStore(t *testing.T) (url string, store queue.Engine) {
	t.Helper()
	engine, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	desk := pull.New(engine, pull.Options{})
	turns := pull.NewQueueTurns(engine, desk)
	server := httptest.NewServer(api.New(engine, api.Options{Pull: desk, Turns: turns}))
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- desk.Run(ctx) }()
	t.Cleanup(func() {
		server.Close()
		stop()
		err := <-over
		turns.Close()
		if err := errors.Join(err, engine.Close()); err != nil {
			t.Error(err)
		}
	})
	return server.URL, engine
}

// result is what one command line did.
type result struct {
	code     Exit
	out, err string
}

func penstock(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	return penstockIn(t.Context(), stdin, args...)
}

func penstockIn(ctx context.Context, stdin string, args ...string) result {
	var out, errs bytes.Buffer
	code := Run(ctx, args, Streams{In: strings.NewReader(stdin), Out: &out, Err: &errs})
	return result{code, out.String(), errs.String()}
}

// expect runs a command line and checks its exit code and what it printed.
func expect(t *testing.T, code Exit, out, errs string, args ...string) result {
	t.Helper()
	r := penstock(t, "", args...)
	if r.code != code || !strings.Contains(r.out, out) || !strings.Contains(r.err, errs) {
		t.Errorf(
			"penstock %s: exit %d, want %d\nout: %s\nwant: %s\nerr: %s\nwant: %s", strings.Join(args, " "), r.code, code, r.out,
			out, r.err, errs,
		)
	}
	return r
}

func TestUsage(t *testing.T) {
	expect(t, ExitDone, "Exit codes:", "", "--help")
	expect(t, ExitDone, "Exit codes:", "")
	expect(t, ExitDone, "", "", "--version")
	t.Setenv("PENSTOCK_VERSION", "v1.2") // as a deployment may name its image: it asks for no version
	expect(t, ExitUsage, "", "unknown flag", "queue", "ls", "--nonsense")
	expect(t, ExitUsage, "", "unknown flag --nonsense", "queue", "ls", "--nonsense")
	expect(t, ExitUsage, "", `unexpected argument nonsense`, "nonsense")
	expect(t, ExitUsage, "", "must be a URL", "queue", "ls", "--server", "localhost")
	expect(t, ExitUsage, "", "--output", "queue", "ls", "-o", "xml")
	expect(t, ExitUnreachable, "", "penstock up", "queue", "ls", "--server", "http://127.0.0.1:1")
	for _, command := range [][]string{
		{"up"},
		{"push"},
		{"top"},
		{"completion"},
		{"queue"},
		{"queue", "ls"},
		{"queue", "info"},
		{"queue", "set"},
		{"queue", "apply"},
		{"queue", "pause"},
		{"queue", "resume"},
		{"queue", "rm"},
		{"job", "get"},
		{"job", "cancel"},
		{"demo"},
		{"prove"},
	} {
		expect(t, ExitDone, "Usage: penstock "+strings.Join(command, " "), "", append(command, "--help")...)
	}
}

func TestServerFromEnvironment(t *testing.T) {
	t.Setenv("PENSTOCK_URL", ingress(t))
	expect(t, ExitDone, "no queues", "", "queue", "ls")
	t.Setenv("PENSTOCK_OUTPUT", "json")
	expect(t, ExitDone, "[]", "", "queue", "ls")
}

func TestQueueLife(t *testing.T) {
	t.Setenv("PENSTOCK_URL", ingress(t))
	expect(t, ExitRefused, "", "there is no queue", "queue", "info", "email")
	expect(t, ExitRefused, "", "give a rate, such as rate=14/s", "queue", "set", "email", "capacity=5")
	expect(t, ExitRefused, "", "rate", "queue", "set", "email", "rate=0/s")
	expect(t, ExitUsage, "", "must be FIELD=VALUE", "queue", "set", "email", "rate")
	expect(t, ExitUsage, "", "has no fields", "queue", "set", "email", "rate=1/s", "rate.x=1")
	expect(t, ExitDone, "email created, revision", "", "queue", "set", "email", "rate=14/s", "capacity=5",
		"retry.max_attempts=3",
		"deliver.http.url=http://127.0.0.1:1/x")
	expect(t, ExitDone, "capacity: 5 -> 6\n  rate: 14/s -> 5/s", "", "queue", "set", "email", "rate=5/s", "capacity=6")
	expect(t, ExitDone, "unchanged", "", "queue", "set", "email", "rate=5/s")
	expect(t, ExitDone, "retry.max_attempts: 3 -> 8", "", "queue", "set", "email", "retry.max_attempts=")
	expect(t, ExitRefused, "", "changed", "queue", "set", "email", "rate=6/s", "--revision", "1000")

	r := expect(t, ExitDone, "", "", "queue", "info", "email", "-o", "json")
	var info struct {
		Name     string
		Rate     string
		Capacity int
		Revision int
		Drainers []any
	}
	if err := json.Unmarshal([]byte(r.out), &info); err != nil || info.Name != "email" || info.Rate != "5/s" ||
		info.Capacity != 6 || info.Revision == 0 || info.Drainers == nil {
		t.Errorf("%v: %s", err, r.out)
	}
	expect(t, ExitDone, "5/s (one each 200ms), revision", "", "queue", "info", "email")
	expect(t, ExitDone, "no drainer was ever seen: nothing leaves this store", "", "queue", "info", "email")

	expect(
		t, ExitDone, "email is paused by "+userAtHost()+": too many bounces", "", "queue", "pause", "email", "--reason",
		"too many bounces",
	)
	expect(t, ExitDone, "paused by "+userAtHost()+": too many bounces", "", "queue", "ls")
	expect(t, ExitDone, "email is idle", "", "queue", "resume", "email")

	if r := penstock(
		t, "{\"payload\":1}\n{\"payload\":2,\"id\":\"two\"}\n", "push", "email", "-f", "-",
	); r.code != ExitDone || !strings.HasPrefix(r.out, "2 read: 2 accepted") {
		t.Fatalf("%+v", r)
	}
	expect(t, ExitDone, "waiting", "", "job", "get", "email", "two")
	expect(t, ExitDone, `"position": 2`, "", "job", "get", "email", "two", "-o", "json")
	expect(t, ExitRefused, "", "unknown_job", "job", "get", "email", "three")
	expect(t, ExitDone, "2/6", "", "queue", "ls")

	expect(t, ExitRefused, "", "holds 2 jobs and was not deleted", "queue", "rm", "email")
	if r := penstock(t, "no\n", "queue", "rm", "email", "--force"); r.code != ExitRefused ||
		!strings.Contains(r.err, "2 jobs, which will be lost") {
		t.Errorf("%+v", r)
	}
	expect(t, ExitDone, "email deleted", "", "queue", "rm", "email", "--force", "--yes")
	expect(t, ExitRefused, "", "there is no queue", "queue", "rm", "email")
}

func TestPushReport(t *testing.T) {
	t.Setenv("PENSTOCK_URL", ingress(t))
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good.ndjson", strings.Repeat(`{"payload":{"to":"a@example.com"}}`+"\n", 4))
	expect(t, ExitRefused, "", "there is no queue", "push", "sms", "-f", good)
	expect(t, ExitDone, "", "", "queue", "set", "sms", "rate=1/h", "capacity=6")
	expect(t, ExitDone, "4 read: 4 accepted, 0 duplicate, 0 refused, 0 failed\n", "", "push", "sms", "-f", good)
	expect(t, ExitDone, "4 read: 0 accepted, 4 duplicate", "", "push", "sms", "-f", good)

	table := write("people.csv", "to,text\nb@example.com,\"hi, you\"\nc@example.com,x\nd@example.com,y\n")
	r := expect(
		t, ExitRefused, `"refused": 1`, "people.csv:4: the queue is full", "push", "sms", "-f", table, "--no-wait", "-o",
		"json",
	)
	if !strings.Contains(r.out, `"accepted": 2`) {
		t.Error(r.out)
	}
	bad := write("bad.ndjson", "{\"payload\":1,\"id\":\"x y\"}\nnot json\n")
	r = expect(
		t, ExitRefused, "0 accepted, 0 duplicate, 0 refused, 2 failed", "bad.ndjson:2: not JSON", "push", "sms", "-f", bad,
	)
	if !strings.Contains(r.err, "bad.ndjson:1: id") {
		t.Error(r.err)
	}
	expect(t, ExitUsage, "", "unknown format of", "push", "sms", "-f", write("x.txt", ""))
	expect(t, ExitUsage, "", "no such file", "push", "sms", "-f", filepath.Join(dir, "none.csv"))
	expect(t, ExitUsage, "", "is a directory", "push", "sms", "-f", dir, "--format", "csv")
	expect(t, ExitUsage, "", "first row", "push", "sms", "-f", write("empty.csv", ""))

	// Ctrl-C while there is no room.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := penstockIn(ctx, `{"payload":9}`, "push", "sms", "-f", "-"); r.code != ExitInterrupted ||
		!strings.Contains(r.err, "push the same file again") {
		t.Errorf("%+v", r)
	}
}

func TestWatch(t *testing.T) {
	t.Setenv("PENSTOCK_URL", ingress(t))
	expect(t, ExitDone, "", "", "queue", "set", "sms", "rate=1/s")
	ctx, cancel := context.WithCancel(t.Context())
	out := &untilSeen{text: "sms", times: 3, then: cancel}
	code := Run(
		ctx, []string{"queue", "ls", "--watch", "--interval", "50ms"}, Streams{In: strings.NewReader(""), Out: out, Err: out},
	)
	if code != ExitDone || out.seen < 3 {
		t.Errorf("exit %d after %d tables", code, out.seen)
	}
	expect(t, ExitUsage, "", "--interval", "queue", "ls", "--watch", "--interval", "1ms")
}

// untilSeen calls then when a text was written so many times.
type untilSeen struct {
	text  string
	times int
	then  func()
	seen  int
}

func (u *untilSeen) Write(p []byte) (int, error) {
	u.seen += bytes.Count(p, []byte(u.text))
	if u.seen >= u.times {
		u.then()
	}
	return len(p), nil
}

func TestApply(t *testing.T) {
	t.Setenv("PENSTOCK_URL", ingress(t))
	path := filepath.Join(t.TempDir(), "queues.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(
		"queues:\n  - name: email\n    rate: 14/s\n    deliver:\n      http: {url: \"http://127.0.0.1:1/x\", timeout: " +
			"10s}\n  - name: sms\n    rate: 1/s\n",
	)
	expect(t, ExitDone, "email would be created\nsms would be created\n", "", "queue", "apply", "-f", path, "--dry-run")
	expect(t, ExitDone, "no queues", "", "queue", "ls")
	expect(t, ExitDone, "email created, revision", "", "queue", "apply", "-f", path)
	expect(t, ExitDone, "email unchanged", "", "queue", "apply", "-f", path)
	write(
		"queues:\n  - name: email\n    rate: 5/s\n    deliver:\n      http: {timeout: 3s, url: \"http://127.0.0.1:1/x\"}\n",
	)
	expect(
		t, ExitDone, "email would be changed\n  deliver.http.timeout: 10s -> 3s\n  rate: 14/s -> 5/s\n", "", "queue", "apply",
		"-f", path, "--dry-run",
	)
	r := expect(t, ExitDone, "", "", "queue", "apply", "-f", path, "-o", "json")
	var done []applycmd.Result
	if err := json.Unmarshal([]byte(r.out), &done); err != nil || len(done) != 1 || done[0].Action != "changed" ||
		len(done[0].Changes) != 2 {
		t.Errorf("%v: %s", err, r.out)
	}
	expect(t, ExitDone, "5/s", "", "queue", "info", "email")
	write("queues:\n  - name: email\n    rate: 9/s\n  - name: sms\n    rate: 0/s\n")
	expect(t, ExitUsage, "", "queues[1].rate", "queue", "apply", "-f", path)
	expect(t, ExitDone, "5/s", "", "queue", "info", "email") // nothing half-applied
	expect(t, ExitUsage, "", "no such file", "queue", "apply", "-f", path+".none")
}

// loopback lets targets be on this machine.
func loopback(t *testing.T) *egress.Guard {
	t.Helper()
	g, err := egress.New(egress.Loopback...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}
