//go:build unix

package outfile

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

var errBroken = errors.New("broken")

func broken(w io.Writer) error { return errors.Join(text("half")(w), errBroken) }

func expect(t *testing.T, path, want string, mode fs.FileMode) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s has %q, %v; want %q", path, got, err, want)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != mode {
		t.Errorf("%s has mode %v, %v; want %v", path, info.Mode(), err, mode)
	}
}

func alone(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != len(names) {
		t.Errorf("the directory has %v, %v; want %v", entries, err, names)
	}
}

func TestARegularFileIsReplacedAsAWholeOrStays(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := CheckReplace(path); err != nil {
		t.Fatal(err)
	}
	alone(t, dir)
	if err := Replace(t.Context(), path, Private, text("one")); err != nil {
		t.Fatal(err)
	}
	expect(t, path, "one", 0o600)
	if err := Replace(t.Context(), path, 0o644, broken); !errors.Is(err, errBroken) {
		t.Error(err)
	}
	expect(t, path, "one", 0o600)
	if err := Replace(t.Context(), path, 0o644, text("two")); err != nil {
		t.Fatal(err)
	}
	expect(t, path, "two", 0o600) // the mode does not get wider
	alone(t, dir, "file")
	for _, bad := range []string{dir, filepath.Join(dir, "nowhere", "file")} {
		if CheckReplace(bad) == nil || Replace(t.Context(), bad, Private, text("x")) == nil {
			t.Errorf("%s can be written", bad)
		}
	}
}

func TestANewFileIsMadeOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := Create(t.Context(), path, broken); !errors.Is(err, errBroken) {
		t.Error(err)
	}
	alone(t, dir)
	if err := errors.Join(CheckCreate(path), Create(t.Context(), path, text("one"))); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "nothing"), link); err != nil {
		t.Fatal(err)
	}
	for _, there := range []string{path, link} {
		if err := CheckCreate(there); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v", there, err)
		}
		if err := Create(t.Context(), there, text("two")); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v", there, err)
		}
	}
	expect(t, path, "one", 0o600)
	alone(t, dir, "file", "link")
}

func TestALinkStaysALink(t *testing.T) {
	dir := t.TempDir()
	link, path := filepath.Join(dir, "link"), filepath.Join(dir, "file")
	if err := os.Symlink("file", link); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"to nothing yet", "to a file"} {
		if err := Replace(t.Context(), link, Private, text(want)); err != nil {
			t.Fatal(err)
		}
		expect(t, path, want, 0o600)
		if to, err := os.Readlink(link); err != nil || to != "file" {
			t.Errorf("the link leads to %q, %v", to, err)
		}
	}
	alone(t, dir, "link", "file")
}

// Both as root, which may rename over a device, and as another user.
func TestADeviceStaysADevice(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(os.DevNull, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{os.DevNull, link} {
		if err := errors.Join(
			CheckReplace(path), Replace(t.Context(), path, Private, text("x")),
			CheckCreate(path), Create(t.Context(), path, text("x")),
		); err != nil {
			t.Error(err)
		}
		if err := Create(t.Context(), path, broken); !errors.Is(err, errBroken) { // which removes nothing
			t.Error(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode()&fs.ModeCharDevice == 0 {
			t.Fatalf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

func TestAPipeIsWrittenInPlace(t *testing.T) {
	dir := t.TempDir()
	pipe, unread := filepath.Join(dir, "pipe"), filepath.Join(dir, "unread")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), syscall.Mkfifo(unread, 0o600)); err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := Replace(ended, unread, Private, text("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("without a reader: %v", err)
	}
	for _, write := range []func() error{
		func() error { return Replace(t.Context(), pipe, Private, text("through it")) },
		func() error { return Create(t.Context(), pipe, text("through it")) },
	} {
		done := make(chan error, 1)
		go func() { done <- write() }()
		got, err := os.ReadFile(pipe)
		if err = errors.Join(err, <-done); err != nil || string(got) != "through it" {
			t.Errorf("read %q, %v", got, err)
		}
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// A shell that redirects several commands to one file loses nothing of the others.
func TestStandardOutputIsNeitherReplacedNorTruncated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func(was *os.File) { os.Stdout = was; _ = f.Close() }(os.Stdout)
	os.Stdout = f
	for _, s := range []string{"one ", "two"} {
		if err := Replace(t.Context(), path, Private, text(s)); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, path, "one two", 0o644)
}
