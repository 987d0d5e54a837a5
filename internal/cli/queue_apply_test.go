package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/cli/applycmd"
	"github.com/penstock/penstock/queue"
)

// fileOf returns how to write a file of queues, each given as one line of YAML.
func fileOf(t *testing.T) (path string, write func(queues ...string)) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "queues.yaml")
	return path, func(queues ...string) {
		t.Helper()
		text := "queues:\n"
		for _, q := range queues {
			text += "  - {" + q + "}\n"
		}
		if len(queues) == 0 {
			text = "queues: []\n"
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// appended puts so many jobs into a queue.
func appended(t *testing.T, store queue.Engine, name string, jobs int) {
	t.Helper()
	list := make([]queue.Job, jobs)
	for i := range list {
		list[i] = queue.Job{Queue: name, ID: fmt.Sprint(i)}
	}
	got, err := store.Append(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range got {
		if a.Outcome != queue.Accepted {
			t.Fatalf("%+v", a)
		}
	}
}

// The effect of a change on the backlog is shown by a dry run, and when the change is made.
func TestApplyShowsTheEffect(t *testing.T) {
	url, store := ingressAndStore(t)
	t.Setenv("PENSTOCK_URL", url)
	path, write := fileOf(t)
	diff := func(flags ...string) result {
		return expect(t, ExitDone, "", "", append([]string{"queue", "apply", "-f", path, "--diff"}, flags...)...)
	}
	write("name: email, rate: 1/h, capacity: 100, max_in_flight: 2")
	diff()
	write("name: email, rate: 1/m, burst: 3, capacity: 5, max_in_flight: 1")
	if r := diff("--dry-run"); strings.Contains(r.out, "\n    ") {
		t.Errorf("an effect on nothing:\n%s", r.out)
	}
	appended(t, store, "email", 9)
	if got, err := store.Reserve(t.Context(), queue.ReserveRequest{Client: queue.Client{ID: "d"}, Max: 1}); err != nil ||
		len(got.Jobs) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	at := `(\d\d\d\d-\d\d-\d\d )?\d\d:\d\d:\d\d`
	text := regexp.MustCompile(`^email would be changed
  burst: 1 -> 3
  capacity: 100 -> 5
    the queue has 4 jobs more than that; none are dropped, and it is full until they have left
  max_in_flight: 2 -> 1
    1 in flight now; nothing leaves until there are fewer than 1
  rate: 1/h -> 1/m
    its 8 jobs will be drained at ` + at + ` instead of ` + at + `
$`)
	if r := diff("--dry-run"); !text.MatchString(r.out) {
		t.Errorf("%s", r.out)
	}
	var plan []applycmd.Result
	r := diff("--dry-run", "-o", "json")
	if err := json.Unmarshal([]byte(r.out), &plan); err != nil || len(plan) != 1 || plan[0].Effect == nil {
		t.Fatalf("%v: %s", err, r.out)
	}
	e := plan[0].Effect
	if e.Backlog != 8 || e.AboveCapacity != 4 || e.InFlight != 1 || e.Never != "" ||
		time.Until(*e.DrainedAt).Round(time.Hour) != 8*time.Hour ||
		time.Until(*e.DrainedThen).Round(time.Minute) != 8*time.Minute {
		t.Errorf("%s", r.out)
	}
	expect(t, ExitDone, `"rate": "1/h"`, "", "queue", "info", "email", "-o", "json") // nothing was changed
	if r := expect(
		t, ExitDone, "rate: 1/h -> 1/m\n", "", "queue", "apply", "-f", path, "--dry-run",
	); strings.Contains(r.out, "drained") {
		t.Errorf("not asked for:\n%s", r.out)
	}

	expect(t, ExitDone, "", "", "queue", "pause", "email")
	never := "\n    as things are, no job leaves: each waits for the queue to be resumed\n"
	if r := diff("--dry-run"); strings.Count(r.out, never) != 1 {
		t.Error(r.out)
	}
	expect(t, ExitDone, "", "", "queue", "resume", "email")
	if r := diff(); !regexp.MustCompile(
		`changed, revision \d+\n(.*\n)*  rate: 1/h -> 1/m\n    its 8 jobs will be drained at `,
	).MatchString(r.out) {
		t.Error(r.out)
	}
	write("name: email, rate: 1/m, burst: 4, capacity: 5, max_in_flight: 1")
	if r := diff("--dry-run"); !regexp.MustCompile(
		`would be changed\n  burst: 3 -> 4\n    its 8 jobs will be drained at ` + at +
			`, as before, except for departures saved up while idle\n$`,
	).MatchString(r.out) {
		t.Error(r.out)
	}
	// The rate of the file does not go with the burst as it is.
	write("name: email, rate: 1/s, burst: 5000, capacity: 5, max_in_flight: 1")
	diff()
	write("name: email, rate: 1/d, capacity: 5, max_in_flight: 1")
	if r := diff("--dry-run"); !strings.Contains(
		r.out, "  rate: 1/s -> 1/d\n    no forecast for its jobs: rate: ",
	) {
		t.Error(r.out)
	}
}

// Queues that are not in the file are deleted last, except queues with jobs and their parents.
func TestApplyPrunes(t *testing.T) {
	url, store := ingressAndStore(t)
	t.Setenv("PENSTOCK_URL", url)
	path, write := fileOf(t)
	prune := []string{"queue", "apply", "-f", path, "--prune"}
	do := func(code Exit, out, errs string, flags ...string) {
		t.Helper()
		r := penstock(t, "", append(prune, flags...)...)
		out = regexp.MustCompile(`revision \d+`).ReplaceAllString(out, "revision N")
		if got := regexp.MustCompile(`revision \d+`).ReplaceAllString(r.out, "revision N"); r.code != code || got != out ||
			!strings.Contains(r.err, errs) {
			t.Errorf("%v: exit %d, want %d\n%s\nwant\n%s\n%s\nwant\n%s", flags, r.code, code, got, out, r.err, errs)
		}
	}
	names := func(want string) {
		t.Helper()
		all, err := store.List(t.Context(), "", 100)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range all {
			got = append(got, all[i].Spec.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("there are %v, want %s", got, want)
		}
	}
	// Parents are made before children, wherever they stand.
	write(
		"name: a.x, rate: 1/h", "name: a, rate: 1/h", "name: b.x, rate: 1/h", "name: b.y, rate: 1/h", "name: b, rate: 1/h",
		"name: old, rate: 1/h",
	)
	do(
		ExitDone,
		"a created, revision N\nb created, revision N\nold created, revision N\na.x created, revision N\n"+
			"b.x created, revision N\nb.y created, revision N\n",
		"",
	)
	appended(t, store, "b.y", 3)

	write("name: a.x, rate: 1/h", "name: new, rate: 1/h")
	do(ExitDone, `new would be created
a.x unchanged, revision N
b.x would be deleted: it is empty
b.y is not in the file, but holds 3 jobs: it would be kept; --force deletes it with its jobs
a is not in the file, but has children that stay: it would be kept
b is not in the file, but has children that stay: it would be kept
old would be deleted: it is empty
`, "", "--dry-run")
	names("a a.x b b.x b.y old")
	do(
		ExitRefused, "",
		"old would be deleted: it is empty\n2 queues not in the file will be deleted, with all jobs. "+
			"Type prune to continue: penstock: canceled; nothing was changed",
	)
	names("a a.x b b.x b.y old") // not even new was made
	do(ExitRefused, `new created, revision N
a.x unchanged, revision N
b.x deleted
b.y is not in the file, but holds 3 jobs: it was kept; --force deletes it with its jobs
a is not in the file, but has children that stay: it was kept
b is not in the file, but has children that stay: it was kept
old deleted
`, "", "--yes")
	names("a a.x b b.y new")

	// A file that cannot be put leaves all as it is.
	write("name: a.x, rate: 0/s")
	do(ExitUsage, "", "queues[0].rate", "--yes", "--force")
	names("a a.x b b.y new")

	write("name: a, rate: 1/h")
	var plan []applycmd.Result
	r := expect(t, ExitDone, "", "", append(prune, "--force", "--dry-run", "-o", "json")...)
	if err := json.Unmarshal([]byte(r.out), &plan); err != nil || len(plan) != 5 || plan[2].Queue != "b.y" ||
		plan[2].Action != "removed" || plan[2].Surplus.Held != 3 || plan[0].Surplus != nil {
		t.Errorf("%v: %s", err, r.out)
	}
	if r := penstock(t, "prune\n", append(prune, "--force")...); r.code != ExitDone ||
		!strings.Contains(r.err, "b.y would be deleted: it holds 3 jobs") {
		t.Errorf("%+v", r)
	}
	names("a")
	do(ExitDone, "a unchanged, revision N\n", "") // nothing to ask about
	expect(t, ExitUsage, "", "needs --prune", "queue", "apply", "-f", path, "--force")
}

// A file without a queue's target does not remove the target without confirmation.
func TestApplyConfirmsLossOfATarget(t *testing.T) {
	t.Setenv("PENSTOCK_URL", ingress(t))
	expect(t, ExitDone, "", "", "queue", "set", "q", "rate=1/s", "deliver.http.url=https://api.example.com/v1")
	path := filepath.Join(t.TempDir(), "queues.yaml")
	if err := os.WriteFile(path, []byte("queues:\n- {name: q, rate: 2/s}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	apply := []string{"queue", "apply", "-f", path}
	if r := penstock(t, "no\n", apply...); r.code != ExitRefused ||
		!strings.Contains(r.err, "q would lose its target, which is not in the file") ||
		!strings.Contains(r.err, "api.example.com") {
		t.Errorf("exit %d\n%s", r.code, r.err)
	}
	expect(t, ExitDone, "api.example.com", "", "queue", "info", "q")
	expect(t, ExitDone, "q would be changed", "", append(apply, "--dry-run")...)
	expect(t, ExitDone, "rate", "warning: the queue has neither deliver nor pull", append(apply, "--yes")...)
	expect(t, ExitDone, "unchanged", "", apply...)
	expect(
		t, ExitRefused, "", "must be http", "queue", "set", "q", "pull=true", "deliver.smtp.host=a.test",
	)
	if r := expect(t, ExitDone, "", "", "queue", "set", "q", "pull=true"); strings.Contains(r.err, "warning") {
		t.Errorf("workers can pull from it:\n%s", r.err)
	}
}
