package operator

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/queue/boltq"
)

// A token file that others can read or write prevents a start, and the error does not quote the token.
func TestOwnTokenIsPrivate(t *testing.T) {
	e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	a, err := auth.New(e, auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), TokenFile)
	start := func() error { return EnsureToken(t.Context(), a, path, slog.New(slog.DiscardHandler)) }
	if err := start(); err != nil {
		t.Fatal(err)
	}
	secret, err := os.ReadFile(path)
	if info, _ := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info.Mode(), err)
	}
	for _, mode := range []os.FileMode{0o644, 0o640, 0o604, 0o620, 0o602} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		err := start()
		if err == nil || !strings.Contains(err.Error(), "refusing to start") ||
			strings.Contains(err.Error(), string(secret)) {
			t.Errorf("mode %v: %v", mode, err)
		}
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := start(); err != nil {
		t.Errorf("put right: %v", err)
	}
}
