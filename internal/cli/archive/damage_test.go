package archive_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/cli/archive"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/queuetest"
	"github.com/penstock/penstock/queue/rules"
)

// smallFile is an export of a few jobs of all kinds.
func smallFile(t *testing.T) []byte {
	t.Helper()
	e, clock := newStore(t)
	put(t, e, "a", "14/s")
	putRule(t, e, "b.otp", 1000)
	put(t, e, "b", "unlimited", func(s *queue.Spec) { s.Rules = []string{"b.otp"} })
	j := job("a", 1)
	j.Lane, j.Priority, j.Headers = "tenant", 3, map[string]string{"X-A": "1"}
	later := job("a", 2)
	later.NotBefore = clock.Now().Time().Add(time.Hour)
	add(t, e, j, later, job("b", 3), job("b", 4))
	d := &drainer{TB: t, e: e, clock: clock}
	jobs, _ := d.reserve(2)
	d.settle(queue.Bury, 0, "no", jobs[0])
	d.settle(queue.Deliver, 0, "", jobs[1:]...)
	clock.Advance(time.Minute)
	file, _ := export(t, e, archive.ExportOptions{Header: archive.Header{Store: "embedded", Version: "v1"}})
	return file
}

func broken(t *testing.T, file []byte, what string, at int) {
	t.Helper()
	_, err := archive.Verify(t.Context(), bytes.NewReader(file), nil)
	var d *archive.Damaged
	if !errors.As(err, &d) || !strings.Contains(err.Error(), "Nothing was changed") {
		t.Errorf("%s %d of %d: %v", what, at, len(file), err)
	}
}

func TestCutAnywhere(t *testing.T) {
	file := smallFile(t)
	verify(t, file)
	for n := range file {
		broken(t, file[:n], "cut at", n)
	}
	broken(t, append(slices.Clone(file), '\n'), "a line more", 0)
	broken(t, slices.Concat(file, file), "twice", 0)
}

func TestFlippedAnywhere(t *testing.T) {
	file := smallFile(t)
	for n := range file {
		bad := slices.Clone(file)
		bad[n] ^= 1 << (n % 7)
		broken(t, bad, "flipped", n)
	}
}

func TestLinesMovedAbout(t *testing.T) {
	lines := bytes.SplitAfter(smallFile(t), []byte("\n"))
	lines = lines[:len(lines)-1]
	for i := range lines {
		without := slices.Concat(lines[:i], lines[i+1:])
		broken(t, bytes.Join(without, nil), "without line", i)
		if i > 0 {
			swapped := slices.Clone(lines)
			swapped[i-1], swapped[i] = swapped[i], swapped[i-1]
			broken(t, bytes.Join(swapped, nil), "swapped line", i)
		}
	}
}

func TestOtherFiles(t *testing.T) {
	file := string(smallFile(t))
	for _, c := range []struct{ text, want string }{
		{"", "empty"},
		{"\n", "not a file written by penstock export"},
		{`{"id": "order-7", "payload": 1}` + "\n", "not a file written by penstock export"},
		{strings.Replace(file, `"format":2`, `"format":3,"new":true`, 1), "format 3"},
		{strings.Repeat("x", 5<<20) + "\n", "longer"},
	} {
		_, err := archive.Verify(t.Context(), strings.NewReader(c.text), nil)
		wantError(t, err, c.want, "Nothing was changed")
	}
}

func TestExportRefuses(t *testing.T) {
	clock := queuetest.NewClock()
	e := embedded(t, filepath.Join(t.TempDir(), "s"), clock)
	put(t, e, "q", "unlimited", func(s *queue.Spec) { s.Capacity, s.Overflow = 1, queue.Defer })
	add(t, e, job("q", 1))
	d := &drainer{TB: t, e: e, clock: clock}
	d.reserve(1)
	refused := func(o archive.ExportOptions, want ...string) {
		t.Helper()
		var file bytes.Buffer
		_, err := archive.Export(context.Background(), e, &file, o)
		var r *archive.Refused
		if !errors.As(err, &r) || file.Len() > 0 {
			t.Errorf("%v, with %d bytes written", err, file.Len())
		}
		wantError(t, err, want...)
	}
	refused(archive.ExportOptions{}, "drainers are running", "drainer", "--live")
	clock.Advance(11 * time.Second) // the drainer is forgotten, its lease stands
	refused(archive.ExportOptions{}, "leased", "q (1)")
	clock.Advance(time.Minute)
	file, n := export(t, e, archive.ExportOptions{})
	if n.Jobs.Waiting != 1 || !bytes.Contains(file, []byte("the lease ran out")) {
		t.Errorf("exported %+v", n)
	}

	j := job("q", 2)
	if out, err := e.Offer(t.Context(), []queue.Job{j}); err != nil || out[0].Outcome != queue.SetAside {
		t.Fatalf("offer: %+v, %v", out, err)
	}
	refused(archive.ExportOptions{}, "deferred", "q (1)", "--without-deferred")
	file, n = export(t, e, archive.ExportOptions{WithoutDeferred: true})
	if n.Deferred != 1 || n.Jobs.Sum() != 1 {
		t.Errorf("exported %+v", n)
	}
	target, _ := newStore(t)
	importInto(t, target, file)
	balanced(t, target)
	if i, err := target.Get(t.Context(), "q"); err != nil || i.Missing != 1 || i.Deferred != 0 {
		t.Errorf("%+v, %v", i, err)
	}
}

func TestImportRefuses(t *testing.T) {
	file := smallFile(t)
	target, _ := newStore(t)
	put(t, target, "b", "unlimited")
	add(t, target, job("b", 9))
	before, _ := export(t, target, archive.ExportOptions{})
	f := verify(t, file)
	_, err := f.Import(t.Context(), target, archive.ImportOptions{})
	var r *archive.Refused
	if !errors.As(err, &r) {
		t.Errorf("%v", err)
	}
	wantError(t, err, "b holds 1 jobs", "penstock queue rm", "Nothing was changed")
	after, _ := export(t, target, archive.ExportOptions{})
	same(t, "the store", essence(after), essence(before))
	var standing []string
	if err := f.Compare(t.Context(), target, func(s archive.Standing) {
		standing = append(standing, s.Name()+" "+s.Is)
	}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"rule b.otp new", "a new", "b holds 1 jobs"}; !slices.Equal(standing, want) {
		t.Errorf("compared: %q, want %q", standing, want)
	}

	half := &breaking{engine: target, left: 1}
	if err := target.Delete(t.Context(), "b", queue.AnyRevision, true); err != nil {
		t.Fatal(err)
	}
	_, err = f.Import(t.Context(), half, archive.ImportOptions{Together: 1})
	wantError(t, err, "broken off")
	_, err = archive.Export(t.Context(), target, &bytes.Buffer{}, archive.ExportOptions{})
	wantError(t, err, "not finished")
	importInto(t, target, file)
	again, _ := export(t, target, archive.ExportOptions{})
	same(t, "the store", essence(again), essence(file))
}

// A different rule is a conflict, an equal rule is not. Counts are not imported.
func TestImportOfRules(t *testing.T) {
	source, _ := newStore(t)
	putRule(t, source, "b.otp", 2)
	putRule(t, source, "free", 3)
	put(t, source, "b", "unlimited", func(s *queue.Spec) { s.Rules = []string{"b.otp"} })
	add(t, source, job("b", 1), job("b", 2))
	file, n := export(t, source, archive.ExportOptions{})
	if n.Rules != 2 {
		t.Errorf("exported %+v", n)
	}
	target, _ := newStore(t)
	putRule(t, target, "free", 4)
	_, err := verify(t, file).Import(t.Context(), target, archive.ImportOptions{})
	wantError(t, err, "rule free exists with other settings", "rule rm", "Nothing was changed")
	if list, err := target.ListRules(t.Context(), "", 10); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	if err := target.DeleteRule(t.Context(), "free", queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	putRule(t, target, "b.otp", 2)
	for range 2 {
		if n := importInto(t, target, file); n.Rules != 2 || !n.Whole() {
			t.Errorf("imported %+v", n)
		}
	}
	i, err := target.Rule(t.Context(), "b.otp")
	if err != nil || !slices.Equal(i.Queues, []string{"b"}) {
		t.Errorf("%+v, %v", i, err)
	}
	if got, err := target.Take(t.Context(), "b.otp", []rules.Take{{Op: rules.TakePeek, Cost: 2}}); err != nil ||
		!got[0].Allowed {
		t.Errorf("what was taken: %+v, %v", got, err)
	}
}

// A rule that is made and named while a store in use is exported comes before its queue.
func TestRuleMadeMeanwhile(t *testing.T) {
	e, _ := newStore(t)
	putRule(t, e, "b.otp", 2)
	put(t, e, "b", "unlimited", func(s *queue.Spec) { s.Rules = []string{"b.otp"} })
	file, n := export(t, lateRules{e}, archive.ExportOptions{Live: true})
	if n.Rules != 1 {
		t.Errorf("exported %+v", n)
	}
	target, _ := newStore(t)
	importInto(t, target, file)
	_, err := archive.Export(t.Context(), lateRules{e}, &bytes.Buffer{}, archive.ExportOptions{})
	if err != nil {
		t.Error(err)
	}
}

// lateRules is a store that lists no rule yet.
type lateRules struct{ engine }

func (lateRules) ListRules(context.Context, string, int) ([]rules.Info, error) { return nil, nil }

// A queue must not use a rule that is not in the file, except in format 1, which has no rules.
func TestRulesOfFile(t *testing.T) {
	lines := strings.SplitAfter(string(smallFile(t)), "\n")
	lines = lines[:len(lines)-1]
	if !strings.HasPrefix(lines[1], `{"rule":{`) {
		t.Fatalf("line 2 is %s", lines[1])
	}
	without := slices.Concat(lines[:1], lines[2:])
	_, err := archive.Verify(t.Context(), strings.NewReader(summed(without, `"rules":1`, `"rules":0`)), nil)
	wantError(t, err, "queue b uses the rule b.otp")
	_, err = archive.Verify(t.Context(), strings.NewReader(summed(lines, `"rules":1`, `"rules":2`)), nil)
	wantError(t, err, "the totals in the trailer are wrong")
	_, err = archive.Verify(
		t.Context(), strings.NewReader(summed(slices.Insert(slices.Clone(lines), 1, lines[1]), `"rules":1`, `"rules":2`)),
		nil,
	)
	wantError(t, err, "appears twice")
	_, err = archive.Verify(
		t.Context(),
		strings.NewReader(summed(
			slices.Insert(slices.Clone(lines), 1, strings.Replace(lines[1], `"limit":1000`, `"limit":0`, 1)), `"rules":1`,
			`"rules":2`,
		)),
		nil,
	)
	wantError(t, err, "limit")

	old := slices.Clone(without)
	old[0] = strings.Replace(old[0], `"format":2`, `"format":1`, 1)
	for i := range old {
		old[i] = strings.Replace(old[i], `"rules":["b.otp"]`, `"rules":[]`, 1)
	}
	text := summed(old, `"rules":1,`, "")
	f, err := archive.Verify(t.Context(), strings.NewReader(text), nil)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	target, _ := newStore(t)
	if n, err := f.Import(t.Context(), target, archive.ImportOptions{}); err != nil || n.Queues != 2 || n.Rules != 0 {
		t.Errorf("%+v, %v", n, err)
	}
}

// summed are lines with a trailer that agrees with them, in which one thing is replaced.
func summed(lines []string, old, replaced string) string {
	body := strings.Join(lines[:len(lines)-1], "")
	trailer := strings.Replace(lines[len(lines)-1], old, replaced, 1)
	trailer = regexp.MustCompile(`"sha256":"[0-9a-f]*"`).ReplaceAllString(trailer, fmt.Sprintf(
		`"sha256":"%x"`, sha256.Sum256([]byte(body)),
	))
	return body + regexp.MustCompile(`"lines":\d+`).ReplaceAllString(trailer, fmt.Sprintf(`"lines":%d`, len(lines)-1))
}
