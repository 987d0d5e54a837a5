package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/penstock/penstock/internal/app/store"
)

// A sound store is told from a damaged one, one in use and none.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	expect(t, ExitUsage, "", "there is no embedded store (penstock.db)", "check", "--data", dir)
	engine, err := store.Open(t.Context(), store.Options{DataPath: dir})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, ExitFailed, "", "--data "+dir+": in use: stop penstock up, or check a copy", "check", "--data", dir)
	if err := engine.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, store.FileName)
	expect(t, ExitDone, file+" is sound: ", "", "check", "--data", dir)
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := os.Getpagesize() * 2; i < len(whole); i++ { // all but the meta pages
		whole[i] = 0
	}
	if err := os.WriteFile(file, whole, info.Mode()); err != nil {
		t.Fatal(err)
	}
	const damaged = "damaged; restore a backup (penstock check --data DIR checks the whole file): page "
	expect(t, ExitFailed, "", damaged, "check", "--data", dir)
	expect(t, ExitFailed, "", damaged, "up", "--data", dir, "--listen", "127.0.0.1:0")
	if err := os.WriteFile(file, []byte("notes of another program"), info.Mode()); err != nil {
		t.Fatal(err)
	}
	expect(t, ExitFailed, "", "a file of another program", "check", "--data", dir)
}
