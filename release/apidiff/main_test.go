package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// history is a repository of a small module.
type history struct {
	t   *testing.T
	dir string
}

func newHistory(t *testing.T) history {
	h := history{t, t.TempDir()}
	h.git("init", "-q")
	h.write("go.mod", "module example.com/m\n\ngo 1.26.0\n")
	h.write("a/a.go", "package a\n\nfunc Kept() {}\n\nfunc Removed(n int) {}\n")
	h.write("internal/i/i.go", "package i\n\nfunc Hidden() {}\n")
	h.write("cmd/c/c.go", "package main\n\nfunc main() {}\n")
	h.commit()
	return h
}

func (h history) git(args ...string) {
	h.t.Helper()
	cmd := exec.CommandContext(h.t.Context(), "git", append(
		[]string{"-C", h.dir, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		h.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func (h history) write(name, content string) {
	h.t.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

func (h history) commit() {
	h.t.Helper()
	h.git("add", "-A")
	h.git("commit", "-q", "-m", "a")
}

// compare runs the comparison with accepted changes and returns what it prints, and its error as text.
func (h history) compare(accepted string) (printed, failure string) {
	h.t.Helper()
	file := filepath.Join(h.t.TempDir(), "accepted.txt")
	if err := os.WriteFile(file, []byte(accepted), 0o600); err != nil {
		h.t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(h.t.Context(), []string{"-repository", h.dir, "-accepted", file}, &out); err != nil {
		failure = err.Error()
	}
	return out.String(), failure
}

// expect fails unless the output and the error have the given parts; an empty error means success.
func (h history) expect(what, accepted, prints, fails string) {
	h.t.Helper()
	out, failure := h.compare(accepted)
	if !strings.Contains(out, prints) || !strings.Contains(failure, fails) || fails == "" && failure != "" {
		h.t.Errorf("%s: printed %q and failed with %q, want %q and %q", what, out, failure, prints, fails)
	}
}

const change = "./a.Removed: removed"

func TestChangesSinceTheLastRelease(t *testing.T) {
	h := newHistory(t)
	h.expect("without a tag", "", "no release yet: ", "")
	h.expect("without a tag", "", "1 public packages export 2 names", "")
	h.expect("a line without a tag", "x", "no release yet", "delete the line")
	h.git("tag", "v0.1.0")
	h.git("tag", "v0.9.0-rc.1")
	h.git("tag", "other")
	h.expect("the release itself", "", "no release yet", "")

	h.write("a/b.go", "package a\n\nfunc Added() {}\n")
	h.commit()
	h.expect("an addition", "",
		"compatible    ./a.Added: added\ncompared 1 public packages with v0.1.0: 1 changes, 0 of", "")
	h.write("internal/i/i.go", "package i\n")
	h.write("a/a.go", "package a\n\nfunc Kept() {}\n")
	h.expect("a removal, not committed", "", "incompatible  "+change, "undo it")
	h.expect("an accepted removal", "# why\n"+change+"\n", "1 of them incompatible", "")
	h.expect("too many accepted", change+"\nmore", "", "delete the line")
	h.commit()
	h.git("tag", "v0.2.0")
	h.expect("the next release", change, "compared 1 public packages with v0.1.0", "")
	h.write("a/a.go", "package a\n\nfunc Kept(n int) {}\n")
	h.commit()
	h.expect("after the next release", change, "with v0.2.0", "delete the line")
	h.write("a/a.go", "package a\n\nfunc Kept() { nonsense }\n")
	h.expect("what does not compile", "", "", "nonsense")
}

func TestPublic(t *testing.T) {
	for name, want := range map[string]bool{
		"": true, "queue": true, "queue/boltq": true, "queue/internal": false, "internal/app": false, "cmd/penstock": false,
		"deploy/grafana": false, "command": true, "deliver/internal/x": false,
	} {
		if public(name) != want {
			t.Errorf("public(%q) is %v", name, !want)
		}
	}
}

func TestInvalidArguments(t *testing.T) {
	var out bytes.Buffer
	for _, args := range [][]string{{"v0.1.0"}, {"-nonsense"}, {"-accepted", filepath.Join(t.TempDir(), "none")}} {
		if run(t.Context(), args, &out) == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}
