package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// repository makes a repository with one commit, for tests.
func repository(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "repository")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "go.mod", "module example.com/m\n")
	write(t, dir, ".gitignore", "/ignored\n")
	tool(t, "git", "-C", dir, "init", "-q")
	commitAll(t, dir)
	return dir
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// commitAll commits all files at a fixed time.
func commitAll(t *testing.T, dir string) {
	t.Helper()
	t.Setenv("GIT_COMMITTER_DATE", "2026-01-02T03:04:05Z")
	tool(t, "git", "-C", dir, "add", "-A")
	tool(t, "git", "-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "a")
}

// Invalid input is refused before anything is written.
func TestRefusals(t *testing.T) {
	clean := repository(t)
	changed, added, tagged := repository(t), repository(t), repository(t)
	write(t, changed, "go.mod", "module example.com/changed\n")
	write(t, added, "added.go", "package m\n")
	tool(t, "git", "-C", tagged, "tag", "v0.1.0")
	write(t, tagged, "more.go", "package m\n")
	commitAll(t, tagged)
	foreign := t.TempDir()
	write(t, foreign, "precious", "data")
	for what, c := range map[string]struct {
		args []string
		says string
	}{
		"no version":     {nil, `version "": must have the form vX.Y.Z`},
		"no v":           {[]string{"-version", "0.1.0"}, `version "0.1.0"`},
		"two numbers":    {[]string{"-version", "v0.1"}, `version "v0.1"`},
		"git describe":   {[]string{"-version", "v0.1.0-3-gabcdef0-dirty"}, "must have the form"},
		"a leading zero": {[]string{"-version", "v0.01.0"}, "must have the form"},
		"a command":      {[]string{"-version", "v0.1.0;reboot"}, "must have the form"},
		"a second line":  {[]string{"-version", "v0.1.0\nx"}, "must have the form"},
		"an unknown platform": {
			[]string{"-version", "v0.1.0", "-platforms", "linux/amd64,plan9/386"}, `unknown platform "plan9/386"`,
		},
		"an empty platform":   {[]string{"-version", "v0.1.0", "-platforms", "linux/amd64,"}, `unknown platform ""`},
		"an argument":         {[]string{"-version", "v0.1.0", "v0.2.0"}, `unexpected argument "v0.2.0"`},
		"an unknown flag":     {[]string{"-verison", "v0.1.0"}, "verison"},
		"a changed file":      {[]string{"-version", "v0.1.0", "-repository", changed}, "the work tree has changes"},
		"an added file":       {[]string{"-version", "v0.1.0", "-repository", added}, "added.go"},
		"no repository":       {[]string{"-version", "v0.1.0", "-repository", t.TempDir()}, "not a git repository"},
		"a tag of another":    {[]string{"-version", "v0.1.0", "-repository", tagged}, "tag v0.1.0 names commit"},
		"a folder with files": {[]string{"-version", "v0.1.0", "-out", foreign}, "not an earlier release"},
		"a file instead of out": {
			[]string{"-version", "v0.1.0", "-out", filepath.Join(foreign, "precious")}, "must be a folder",
		},
	} {
		t.Run(what, func(t *testing.T) {
			parent := t.TempDir()
			args := append([]string{"-out", filepath.Join(parent, "dist"), "-repository", clean}, c.args...)
			var out bytes.Buffer
			err := run(t.Context(), args, &out)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
			if entries, err := os.ReadDir(parent); err != nil || len(entries) > 0 {
				t.Errorf("it wrote %v (%v)", entries, err)
			}
		})
	}
	if entries, err := os.ReadDir(foreign); err != nil || len(entries) != 1 {
		t.Errorf("a foreign folder has %v (%v)", entries, err)
	}
}

func TestCommit(t *testing.T) {
	dir := repository(t)
	write(t, dir, "ignored", "x")
	tool(t, "git", "-C", dir, "tag", "v0.1.0") // this commit, so it may be released
	t.Setenv("SOURCE_DATE_EPOCH", "")
	c, err := cleanCommit(t.Context(), dir, "v0.1.0")
	if err != nil || len(c.id) != 40 || !c.time.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
		t.Errorf("%+v, %v", c, err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	if c, err = cleanCommit(t.Context(), dir, "v0.1.0"); err != nil || c.time.Unix() != 1_700_000_000 {
		t.Errorf("%+v, %v", c, err)
	}
	for _, bad := range []string{"yesterday", "-1", "0", "99999999999"} {
		t.Setenv("SOURCE_DATE_EPOCH", bad)
		if _, err = cleanCommit(t.Context(), dir, "v0.1.0"); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("SOURCE_DATE_EPOCH=%s: %v", bad, err)
		}
	}
}

func TestPlatforms(t *testing.T) {
	got, err := parsePlatforms("windows/amd64,linux/arm64")
	if err != nil || len(got) != 2 || got[0].String() != "linux/arm64" || got[1].String() != "windows/amd64" {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := parsePlatforms(""); err != nil || len(got) != 5 {
		t.Errorf("%v, %v", got, err)
	}
}

// A build that fails leaves the earlier release as it was, and nothing else.
func TestFill(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "dist")
	content := func() string {
		text, err := os.ReadFile(filepath.Join(dir, checksumsName))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	failed := errors.New("no space")
	builds := func(text string, err error) func(string) error {
		return func(d string) error {
			write(t, d, checksumsName, text)
			return err
		}
	}
	if err := fill(dir, builds("first", failed)); !errors.Is(err, failed) {
		t.Error(err)
	}
	if entries, err := os.ReadDir(parent); err != nil || len(entries) != 0 {
		t.Errorf("the first failure leaves %v (%v)", entries, err)
	}
	if err := fill(dir, builds("second", nil)); err != nil || content() != "second" {
		t.Error(err, content())
	}
	if err := fill(dir, builds("third", failed)); !errors.Is(err, failed) || content() != "second" {
		t.Error(err, content())
	}
	if err := fill(dir, builds("fourth", nil)); err != nil || content() != "fourth" {
		t.Error(err, content())
	}
	if entries, err := os.ReadDir(parent); err != nil || len(entries) != 1 {
		t.Errorf("there are %v (%v)", entries, err)
	}
}
