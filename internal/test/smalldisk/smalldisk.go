// Package smalldisk gives a test a disk of a few megabytes to fill: a tmpfs that only the test sees, and that goes with
// it, however it ends. If the system lets users create namespaces, it needs no privileges.
package smalldisk

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Fill fills a disk up to a remaining number of bytes, and returns a function that frees the space.
func Fill(t *testing.T, dir string, but int64) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	n, err := io.Copy(f, zeros{})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := f.Truncate(n - but); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }
