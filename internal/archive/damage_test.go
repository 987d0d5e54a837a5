package archive_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/archive"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/queuetest"
)

// smallFile is an export of a few jobs of all kinds.
func smallFile(t *testing.T) []byte {
	t.Helper()
	e, clock := newStore(t)
	put(t, e, "a", "14/s")
	put(t, e, "b", "unlimited")
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
	_, err := archive.Verify(t.Context(), bytes.NewReader(file))
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
		{"\n", "not a file that penstock export wrote"},
		{`{"id": "order-7", "payload": 1}` + "\n", "not a file that penstock export wrote"},
		{strings.Replace(file, `"format":1`, `"format":2,"new":true`, 1), "format 2"},
		{strings.Repeat("x", 5<<20) + "\n", "longer"},
	} {
		_, err := archive.Verify(t.Context(), strings.NewReader(c.text))
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
	refused(archive.ExportOptions{}, "drainers were at work", "drainer", "--live")
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
	if err := f.Compare(t.Context(), target, func(s archive.Standing) { standing = append(standing, s.Queue+" "+s.Is) }); err != nil {
		t.Fatal(err)
	}
	if want := []string{"a new", "b holds 1 jobs"}; !slices.Equal(standing, want) {
		t.Errorf("compared: %q, want %q", standing, want)
	}

	half := &breaking{engine: target, left: 1}
	if err := target.Delete(t.Context(), "b", queue.AnyRevision, true); err != nil {
		t.Fatal(err)
	}
	_, err = f.Import(t.Context(), half, archive.ImportOptions{})
	wantError(t, err, "broken off")
	_, err = archive.Export(t.Context(), target, &bytes.Buffer{}, archive.ExportOptions{})
	wantError(t, err, "not finished")
	importInto(t, target, file)
	again, _ := export(t, target, archive.ExportOptions{})
	same(t, "the store", essence(again), essence(file))
}
