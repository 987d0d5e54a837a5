package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// fixture is a release that was built twice from the files of the work tree, committed or not.
type fixture struct {
	options       options
	first, second string
	err           error
}

var work string // folder of all tests, removed by TestMain

// built builds the fixture: all programs for this Linux and for Windows.
var built = sync.OnceValue(func() (f fixture) {
	f.options = options{
		version: "v9.8.7", commit: commit{id: strings.Repeat("0123456789", 4), time: time.Unix(1_700_000_000, 0).UTC()},
		platforms: []platform{{"linux", runtime.GOARCH}, {"windows", "amd64"}}, programs: programs, repository: "..",
		progress: os.Stderr,
	}
	for i, out := range []*string{&f.first, &f.second} {
		sources := filepath.Join(work, "sources", strings.Repeat("deeper/", i)+"penstock")
		if f.err = copyWorkTree(sources); f.err != nil {
			return f
		}
		*out = filepath.Join(work, "dist", strings.Repeat("deeper/", i)+"dist")
		if f.err = f.options.build(context.Background(), sources, *out); f.err != nil {
			return f
		}
	}
	return f
})

// release returns the fixture.
func release(t *testing.T) fixture {
	t.Helper()
	f := built()
	if f.err != nil {
		t.Fatal(f.err)
	}
	return f
}

// copyWorkTree copies the files that git knows or would add.
func copyWorkTree(to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
	list.Dir = ".."
	names, err := list.Output()
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
		info, err := os.Stat(filepath.Join("..", name))
		if os.IsNotExist(err) || err == nil && info.IsDir() { // deleted, or another repository
			continue
		}
		if err != nil {
			return err
		}
		content, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, name), content, info.Mode().Perm()); err != nil {
			return err
		}
	}
	return nil
}

// tool runs a program that the tests need and returns what it prints.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%v: release/tools.sh installs it", err)
	}
	out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// file returns the path of a file in the first build.
func (f fixture) file(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(f.first, name)
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// mustContain fails unless text has all parts.
func mustContain(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q:\n%s", what, part, text)
		}
	}
}
