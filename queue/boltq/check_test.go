package boltq

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/queue"
)

// CheckFile reads what opening does not: a changed payload.
func TestCheckFile(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("q", "1/s")
	b.AppendTo("q", 0, 100)
	b.MustAppend(queue.Job{Queue: "q", ID: "marked", Payload: []byte(`"a text to be found"`)})
	if _, err := CheckFile(t.Context(), b.path, nil); !errors.Is(err, ErrLocked) {
		t.Errorf("a store in use: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(b.path)
	if err != nil {
		t.Fatal(err)
	}
	done, all := int64(0), int64(0)
	c, err := CheckFile(t.Context(), b.path, func(d, a int64) { done, all = d, a })
	if err != nil || c.Jobs != 101 || c.Records < c.Jobs || c.Pages < 4 || c.OneMeta || done != c.Pages || all < done {
		t.Errorf("%+v, %d of %d pages, %v", c, done, all, err)
	}
	if after, err := os.ReadFile(b.path); err != nil || !bytes.Equal(after, whole) {
		t.Errorf("the file was changed: %v", err)
	}
	spoiled := bytes.ReplaceAll(whole, []byte("to be found"), []byte("to be fOund"))
	if err := os.WriteFile(b.path, spoiled, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = CheckFile(t.Context(), b.path, nil)
	if !errors.Is(err, queue.ErrCorrupt) || !strings.Contains(err.Error(), "damaged; restore a backup") ||
		!strings.Contains(err.Error(), `job "marked"`) {
		t.Errorf("another payload: %v", err)
	}
	if err := os.WriteFile(b.path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	tear(t, b.path)
	if c, err = CheckFile(t.Context(), b.path, nil); err != nil || !c.OneMeta {
		t.Errorf("with one meta page: %+v, %v", c, err)
	}
	missing := filepath.Join(t.TempDir(), "none")
	if _, err := CheckFile(t.Context(), missing, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := os.Stat(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made: %v", err)
	}
}

// The check of a large file logs its progress.
func TestLogProgress(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	progress := logProgress("store", log, time.Now().Add(-time.Second))
	progress(5, 10)
	progress(6, 10)
	if said := out.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "pages=5 of=10") {
		t.Errorf("it said %s", said)
	}
}
