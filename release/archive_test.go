package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// wanted are files that each archive has.
var wanted = []string{
	"LICENSE", "README.md", "CHANGELOG.md", licensesName, "man/penstock.1", "man/penstock-queue.1", "man/ingress.1",
	"man/drainer.1", "completions/penstock.bash", "completions/_penstock", "completions/penstock.fish",
}

func TestArchives(t *testing.T) {
	f := release(t)
	name := "penstock_9.8.7_linux_" + runtime.GOARCH + ".tar.gz"
	var names []string
	for _, h := range tarHeaders(t, f.file(t, name)) {
		names = append(names, h.Name)
		if !h.ModTime.Equal(f.options.commit.time) || h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" {
			t.Errorf("%s: time %v, owner %d:%d %q:%q", h.Name, h.ModTime, h.Uid, h.Gid, h.Uname, h.Gname)
		}
		program := slices.Contains([]string{"penstock", "ingress", "drainer"}, strings.TrimPrefix(h.Name, "penstock-9.8.7/"))
		if program != (h.FileInfo().Mode().IsRegular() && h.Mode == 0o755) {
			t.Errorf("%s has the mode %o", h.Name, h.Mode)
		}
	}
	if !slices.IsSorted(names) {
		t.Errorf("%s is not sorted: %v", name, names)
	}
	for _, w := range append(wanted, "penstock", "ingress", "drainer", "systemd/penstock-up.service") {
		if !slices.Contains(names, "penstock-9.8.7/"+w) {
			t.Errorf("%s has no %s", name, w)
		}
	}

	z, err := zip.OpenReader(f.file(t, "penstock_9.8.7_windows_amd64.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = z.Close() }()
	names = nil
	for _, e := range z.File {
		names = append(names, e.Name)
		if !e.Modified.Equal(f.options.commit.time) {
			t.Errorf("%s has the time %v", e.Name, e.Modified)
		}
	}
	for _, w := range append(wanted, "penstock.exe", "ingress.exe", "drainer.exe") {
		if !slices.Contains(names, "penstock-9.8.7/"+w) {
			t.Errorf("the zip has no %s", w)
		}
	}
	for _, n := range names {
		if strings.Contains(n, "systemd") || strings.Contains(n, "probe") {
			t.Errorf("the zip has %s", n)
		}
	}
}

func tarHeaders(t *testing.T, path string) (all []*tar.Header) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if z.Name != "" || !z.ModTime.IsZero() {
		t.Errorf("%s: the gzip header has the name %q and the time %v", path, z.Name, z.ModTime)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, h)
	}
}

// The license file of each module is in the text, so that the binaries may be passed on.
func TestLicensesOfOthers(t *testing.T) {
	f := release(t)
	modules, err := contents(f.file(t, "bin/linux_"+runtime.GOARCH+"/penstock"))
	if err != nil {
		t.Fatal(err)
	}
	text := untar(t, f.file(t, "penstock_9.8.7_linux_"+runtime.GOARCH+".tar.gz"), "penstock-9.8.7/"+licensesName)
	if len(modules) < 10 {
		t.Errorf("penstock has only %d modules", len(modules))
	}
	for path, m := range modules {
		mustContain(t, licensesName, headings(text), path+" "+m.version+": ")
	}
	if _, err := licenseTexts(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no license file") {
		t.Errorf("a module without a license: %v", err)
	}
}

// headings returns the lines that name a module and a file.
func headings(text string) string {
	var found []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, ": ") && !strings.HasPrefix(line, " ") {
			found = append(found, line)
		}
	}
	return strings.Join(found, "")
}

// untar returns a file of an archive.
func untar(t *testing.T, path, name string) string {
	t.Helper()
	return tool(t, "tar", "-xzOf", path, name)
}
