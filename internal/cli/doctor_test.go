package cli

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/doctor"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/queue"
)

// examined is what the doctor finds. Whatever is wrong comes with a command, and makes the exit code 1.
func examined(t *testing.T, args ...string) (found []doctor.Finding) {
	t.Helper()
	r := penstock(t, "", append([]string{"doctor", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(r.out), &found); err != nil || r.err != "" {
		t.Fatalf("%v: %v\n%s%s", args, err, r.out, r.err)
	}
	want := ExitDone
	if doctor.Worst(found) == doctor.Wrong {
		want = ExitFailed
	}
	if r.code != want {
		t.Errorf("%v: exit %d, want %d", args, r.code, want)
	}
	for _, f := range found {
		if !slices.Contains(doctor.Checks(), f.Check) || (f.Verdict == doctor.OK) != (f.Do == "") {
			t.Errorf("%+v", f)
		}
		understood(t, f.Do)
	}
	return found
}

// understood checks that the tool knows a command that it suggests.
func understood(t *testing.T, line string) {
	t.Helper()
	words := strings.Fields(line)
	if len(words) == 0 || words[0] != "penstock" || strings.Contains(line, "--help") {
		return
	}
	tool, err := kong.New(new(root), kong.Bind(new(command.Run)), kong.Vars{"version": ""})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tool.Parse(words[1:]); err != nil {
		t.Errorf("the doctor suggests %q: %v", line, err)
	}
}

// The tool understands every command that the doctor suggests.
func TestDoctorSuggestsValidCommands(t *testing.T) {
	files, err := filepath.Glob("doctor/*.go")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	shared, err := filepath.Glob("../attention/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(append(files, shared...), "doctorcmd/doctor.go") {
		file, err := parser.ParseFile(gotoken.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			literal, is := node.(*ast.BasicLit)
			if !is || literal.Kind != gotoken.STRING || strings.HasSuffix(name, "_test.go") {
				return true
			}
			text, _ := strconv.Unquote(literal.Value)
			if !strings.HasPrefix(text, "penstock ") || strings.Contains(text, "\n") || strings.HasSuffix(text, "doctor") {
				return true
			}
			if strings.HasSuffix(text, " ") { // what follows is put there as it runs
				text += "x"
			}
			n++
			understood(t, strings.NewReplacer("TWICE", "20/s", "%s", "x", "%v", "20ms").Replace(text))
			return true
		})
	}
	if n < 15 {
		t.Errorf("only %d commands were found", n)
	}
}

// finds checks that there is a finding, and returns its command.
func finds(t *testing.T, found []doctor.Finding, check string, verdict doctor.Verdict, what string) (do string) {
	t.Helper()
	for _, f := range found {
		if f.Check == check && f.Verdict == verdict && strings.Contains(f.What, what) {
			return f.Do
		}
	}
	t.Errorf("no %s of %s says %q: %+v", verdict, check, what, found)
	return ""
}

// without checks that a check has no finding with a verdict.
func without(t *testing.T, found []doctor.Finding, check string, verdict doctor.Verdict) {
	t.Helper()
	for _, f := range found {
		if f.Check == check && f.Verdict == verdict {
			t.Errorf("%+v", f)
		}
	}
}

func TestDoctorRedis(t *testing.T) {
	safe := redistest.New(t, redistest.Options{AppendFsync: "always", MaxMemory: "1gb"})
	found := examined(t, "--redis", safe.URL())
	finds(t, found, "store", doctor.Wrong, "to make a store of it run penstock init")
	finds(t, found, "redis", doctor.OK, "1 server, safe settings")
	engine, err := store.Open(t.Context(), store.Options{
		RedisURL: safe.URL(), Init: true, Partitions: 2, Patience: redistest.Patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = engine.Close() }()
	found = examined(t, "--redis", safe.URL())
	for _, check := range []string{"store", "redis", "clock", "queues"} {
		finds(t, found, check, doctor.OK, "")
	}
	if do := finds(t, found, "drainers", doctor.Warning, "no drainer is running"); do != "drainer --redis "+safe.URL() {
		t.Errorf("what to do: %s", do)
	}

	for setting, c := range map[string]struct {
		value   string
		verdict doctor.Verdict
		what    string
		do      string
	}{
		"maxmemory-policy": {"allkeys-lru", doctor.Wrong, "would drop jobs", "config set maxmemory-policy"},
		"appendfsync":      {"everysec", doctor.Warning, "appendfsync is everysec", "config set appendfsync"},
		"appendonly":       {"no", doctor.Wrong, "appendonly is no", "config set appendonly"},
		// How much there may be depends on what is used, and on the machine.
		"maxmemory": {"0", doctor.Warning, "maxmemory is not set", "info memory"},
	} {
		t.Run(setting, func(t *testing.T) {
			was, err := safe.Client().ConfigGet(t.Context(), setting).Result()
			if err != nil {
				t.Fatal(err)
			}
			set := func(value string) {
				if err := safe.Client().ConfigSet(t.Context(), setting, value).Err(); err != nil {
					t.Fatal(err)
				}
			}
			set(c.value)
			defer set(was[setting])
			do := finds(t, examined(t, "--redis", safe.URL()), "redis", c.verdict, c.what)
			host, port, _ := net.SplitHostPort(safe.Addr())
			if want := "redis-cli -h " + host + " -p " + port + " " + c.do; !strings.HasPrefix(do, want) {
				t.Errorf("what to do: %s, want %s ...", do, want)
			}
		})
	}

	// Passwords are not shown, and a user without some permissions gets a useful error.
	user := []any{"acl", "setuser", "looks", "on", ">s3cret", "~*", "&*", "+@all", "-config"}
	if err := safe.Client().Do(t.Context(), user...).Err(); err != nil {
		t.Fatal(err)
	}
	url := "redis://looks:s3cret@" + safe.Addr()
	finds(t, examined(t, "--redis", url), "redis", doctor.OK, "")
	for _, args := range [][]string{{"--redis", url}, {"--redis", "redis://looks:s3cret@127.0.0.1:1"}} {
		if r := penstock(t, "", append([]string{"doctor"}, args...)...); strings.Contains(r.out+r.err, "s3cret") {
			t.Errorf("a password is shown:\n%s%s", r.out, r.err)
		}
	}
	found = examined(t, "--redis", "redis://127.0.0.1:1")
	finds(t, found, "store", doctor.Wrong, "connection refused")
	finds(t, found, "redis", doctor.Wrong, "connection refused")
}

func TestDoctorDrainers(t *testing.T) {
	url, engine := ingressAndStore(t)
	ask := func(name, version string) {
		t.Helper()
		if _, err := engine.Reserve(t.Context(), queue.ReserveRequest{
			Client: queue.Client{ID: name, Name: name, Version: version}, Number: 1, Max: 1,
		}); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, ExitDone, "", "", "queue", "set", "email", "rate=1/h", "deliver.http.url=http://127.0.0.1:1", "-s", url)
	finds(t, examined(t, "-s", url), "drainers", doctor.Warning, "no drainer is running")
	put(t, engine, "email", "1")
	do := finds(t, examined(t, "-s", url), "drainers", doctor.Wrong, "but jobs wait")
	if do != "drainer --redis URL" {
		t.Errorf("what to do: %s", do)
	}
	ask("one", ops.Version)
	found := examined(t, "-s", url)
	finds(t, found, "drainers", doctor.OK, "1 drainer")
	finds(t, found, "store", doctor.Warning, "authentication is disabled")
	ask("old", "v0.0.1")
	finds(t, examined(t, "-s", url), "drainers", doctor.Warning, "1 drainer with version v0.0.1 (old)")
}

func put(t *testing.T, engine queue.Engine, name string, ids ...string) {
	t.Helper()
	for _, id := range ids {
		a, err := engine.Append(t.Context(), []queue.Job{{Queue: name, ID: id, Payload: []byte("1")}})
		if err != nil || a[0].Outcome != queue.Accepted {
			t.Fatal(a, err)
		}
	}
}

func TestDoctorQueues(t *testing.T) {
	url, engine := ingressAndStore(t)
	set := func(args ...string) {
		t.Helper()
		expect(t, ExitDone, "", "", append([]string{"queue", "set", "-s", url}, args...)...)
	}
	set("full", "rate=10/s", "capacity=1", "pull=true")
	set("lost", "rate=1/d", "capacity=1")
	set("new", "rate=10/s")
	set("dead", "rate=10/s", "capacity=10", "pull=true")
	set("spent", "rate=10/s", "pull=true", "limits.0.quota=1/d")
	set("paused", "rate=10/s", "pull=true")
	set("idle", "rate=10/s", "pull=true")
	set("parent", "rate=10/s", "deliver.http.url=http://127.0.0.1:1")
	set("parent.child", "rate=10/s", "deliver.http.url=http://127.0.0.1:1")
	put(t, engine, "full", "1")
	put(t, engine, "paused", "1")
	put(t, engine, "lost", "1")
	put(t, engine, "dead", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
	put(t, engine, "spent", "1", "2")
	for name, verdict := range map[string]queue.Verdict{"dead": queue.Bury, "spent": queue.Deliver} {
		got, err := engine.Reserve(t.Context(), queue.ReserveRequest{
			Client: queue.Client{ID: name}, Queue: name, Number: 1, Max: 1,
		})
		if err != nil || len(got.Jobs) != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		job := &got.Jobs[0]
		if a, err := engine.Settle(t.Context(), []queue.Settlement{
			{Lease: queue.Lease{Queue: name, ID: job.ID, Fence: job.Fence}, Verdict: verdict},
		}); err != nil || a[0].Stale {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	put(t, engine, "parent.child", "1")
	for _, name := range []string{"paused", "idle", "parent"} {
		expect(t, ExitDone, "", "", "queue", "pause", name, "--reason", "an invoice", "-s", url)
	}
	found := examined(t, "-s", url)
	for what, do := range map[string]string{
		"full is full: it refuses new jobs":                 "penstock queue quote full --rate 20/s",
		"full has 1 job waiting, but no worker":             "penstock queue info full",
		"paused is paused with 1 job in it for ":            "penstock queue resume paused",
		"parent.child holds 1 job: its parent parent is pa": "penstock queue resume parent",
		"lost is full":                        "penstock queue quote lost --rate 2/d",
		"new has neither deliver nor pull":    "penstock queue set new deliver.http.url=https://HOST/PATH",
		"dead has 1 dead job":                 "penstock dead ls dead",
		"dead is nearly full: 9 of 10 places": "penstock queue quote dead --rate 20/s",
		"spent has used up a quota: 1/d":      "penstock queue timetable spent",
	} {
		if got := finds(t, found, "queues", doctor.Warning, what); got != do {
			t.Errorf("%s: what to do: %s, want %s", what, got, do)
		}
	}
	finds(t, found, "queues", doctor.Wrong, "lost has 1 job and no target; the oldest has waited for ")
	r := penstock(t, "", "doctor", "-s", url)
	for line := range strings.Lines(r.out) {
		if len(line) > 100 && !strings.Contains(line, " $ ") {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	t.Setenv(command.EnvURL, url)
	for _, f := range found { // its suggestions work
		if words := strings.Fields(f.Do); f.Check == "queues" && !strings.Contains(f.Do, "resume") {
			expect(t, ExitDone, "", "", append(words[1:], "-s", url)...)
		}
	}
	finds(t, found, "queues", doctor.Warning, "s: an invoice")
	for _, f := range found {
		if f.Check == "queues" && (strings.HasPrefix(f.What, "idle ") || strings.HasPrefix(f.What, "parent ")) {
			t.Errorf("it holds no job: %+v", f)
		}
	}

	// The number of findings is limited.
	for n := range 30 {
		name := fmt.Sprintf("many%02d", n)
		set(name, "rate=10/s", "capacity=1", "pull=true")
		put(t, engine, name, "1")
	}
	found = examined(t, "-s", url)
	finds(t, found, "queues", doctor.Warning, "more")
	if n := len(found); n > 30 {
		t.Errorf("%d findings", n)
	}
}

func TestDoctorRefuses(t *testing.T) {
	for _, c := range []struct {
		says string
		args []string
	}{
		{"cannot be used together", []string{"--redis", "redis://a", "--data", t.TempDir()}},
		{"--redis: want redis://", []string{"--redis", "localhost"}},
		{"no such directory", []string{"--data", "/nowhere"}},
		{"--egress-allow", []string{"--egress-allow", "a b"}},
		{"--nats-replicas 2", []string{"--nats", "nats://127.0.0.1:1", "--nats-replicas", "2"}},
		{"must be a URL", []string{"-s", "nowhere"}},
		{"--output", []string{"-o", "xml"}},
	} {
		expect(t, ExitUsage, "", c.says, append([]string{"doctor"}, c.args...)...)
	}
	// A server that does not answer is a finding, not misuse.
	expect(t, ExitFailed, "store     wrong ", "", "doctor", "-s", "http://127.0.0.1:1")
	expect(t, ExitFailed, "overflow  wrong ", "", "doctor", "-s", ingress(t), "--nats", "nats://127.0.0.1:1")
}
