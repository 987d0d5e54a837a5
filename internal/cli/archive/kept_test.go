package archive_test

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/cli/archive"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/queuetest"
)

// Each release leaves a store and an archive in testdata/kept, made by its own code:
//
//	go test -run '^TestKeptStores$' ./internal/cli/archive -args -keep v0.1.0
//
// Later versions must open both. What was kept is never made again, or the test would compare a version with itself.
var keep = flag.String("keep", "", "keep a store and an archive of this version in testdata/kept")

// TestKeptStores opens the stores and archives of earlier releases. A store and its archive hold the same.
func TestKeptStores(t *testing.T) {
	const dir = "testdata/kept"
	if *keep != "" {
		keepStore(t, filepath.Join(dir, *keep))
	}
	versions, err := os.ReadDir(dir)
	if err != nil || len(versions) == 0 {
		t.Fatalf("%d versions, %v", len(versions), err)
	}
	for _, v := range versions {
		t.Run(v.Name(), func(t *testing.T) { opensKept(t, filepath.Join(dir, v.Name())) })
	}
}

func opensKept(t *testing.T, kept string) {
	at, err := strconv.ParseInt(string(unpacked(t, filepath.Join(kept, "clock.gz"))), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	clock := queuetest.NewClock()
	clock.Set(leaky.Instant(at))
	path := filepath.Join(t.TempDir(), "store")
	if err := os.WriteFile(path, unpacked(t, filepath.Join(kept, "store.gz")), 0o600); err != nil {
		t.Fatal(err)
	}
	file := unpacked(t, filepath.Join(kept, "archive.gz"))
	jobs := verify(t, file).Trailer.Jobs

	source := embedded(t, path, clock)
	balanced(t, source)
	opened, exported := export(t, source, archive.ExportOptions{})
	if exported.Jobs != jobs {
		t.Errorf("the store has %v, its archive %v", exported.Jobs, jobs)
	}
	client := redistest.New(t, redistest.Options{}).Client()
	for name, to := range map[string]engine{
		"embedded": embedded(t, filepath.Join(t.TempDir(), "store"), clock), "redis": onRedis(t, client, "a", 4, clock),
	} {
		if got := importInto(t, to, file); got.Jobs != jobs {
			t.Errorf("%s: imported %v of %v", name, got.Jobs, jobs)
		}
		balanced(t, to)
		again, _ := export(t, to, archive.ExportOptions{})
		same(t, name, essence(again), essence(opened))
	}

	// What waits leaves.
	if err := source.Resume(t.Context(), "paused"); err != nil {
		t.Fatal(err)
	}
	left := 0
	for _, order := range (&drainer{TB: t, e: source, clock: clock}).all() {
		left += len(order)
	}
	if want := jobs.Waiting + jobs.Scheduled; int64(left) < want {
		t.Errorf("%d of %d jobs left", left, want)
	}
}

// keepStore makes what TestKeptStores opens.
func keepStore(t *testing.T, kept string) {
	t.Helper()
	if _, err := os.Stat(kept); err == nil {
		t.Fatalf("%s exists: what is kept is not made again", kept)
	}
	clock := queuetest.NewClock()
	path := filepath.Join(t.TempDir(), "store")
	store := embedded(t, path, clock)
	busyStore(t, store, clock, 400)
	clock.Advance(20 * time.Second) // the drainer is forgotten
	file, _ := export(t, store, archive.ExportOptions{})
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(kept, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"store.gz": data, "archive.gz": file, "clock.gz": fmt.Appendf(nil, "%d", clock.Now()),
	} {
		if err := os.WriteFile(filepath.Join(kept, name), packed(t, content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func packed(t *testing.T, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(content)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func unpacked(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
