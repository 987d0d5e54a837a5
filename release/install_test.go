package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestChecksums(t *testing.T) {
	f := release(t)
	out := tool(t, "sh", "-c", `cd "$1" && sha256sum --strict -c SHA256SUMS`, "sh", f.first)
	entries, err := os.ReadDir(f.first)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if named := strings.Contains(out, e.Name()+": OK\n"); named == (e.IsDir() || e.Name() == checksumsName) {
			t.Errorf("%s has a checksum: %v", e.Name(), named)
		}
	}
}

// installed runs install.sh against a server with the files of dir, and returns the folder, the output and the error.
func installed(t *testing.T, dir string, env ...string) (prefix, out string, err error) {
	t.Helper()
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	prefix = filepath.Join(t.TempDir(), "prefix")
	cmd := exec.CommandContext(t.Context(), "sh", filepath.Join(dir, "install.sh"))
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir(), "PENSTOCK_PREFIX=" + prefix,
		"PENSTOCK_RELEASE_URL=" + server.URL,
	}, env...)
	text, err := cmd.CombinedOutput()
	return prefix, string(text), err
}

func TestInstaller(t *testing.T) {
	f := release(t)
	prefix, out, err := installed(t, f.first)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	mustContain(t, "install.sh", out, "installed Penstock v9.8.7 in "+prefix+"/bin\n", "to your PATH\n")
	for _, p := range []string{"penstock", "ingress", "drainer"} {
		if got := tool(t, filepath.Join(prefix, "bin", p), "--version"); got != "v9.8.7\n" {
			t.Errorf("%s --version: %q", p, got)
		}
	}
	for _, name := range []string{
		"share/man/man1/penstock.1", "share/bash-completion/completions/penstock", "share/zsh/site-functions/_penstock",
		"share/fish/vendor_completions.d/penstock.fish",
	} {
		if _, err := os.Stat(filepath.Join(prefix, name)); err != nil {
			t.Error(err)
		}
	}
}

// If anything is wrong with the download, nothing is installed.
func TestInstallerRefuses(t *testing.T) {
	f := release(t)
	archive := "penstock_9.8.7_linux_" + runtime.GOARCH + ".tar.gz"
	for what, c := range map[string]struct {
		change func(sums, content []byte) (newSums, newContent []byte)
		env    []string
		says   string
	}{
		"a changed archive": {func(s, c []byte) ([]byte, []byte) {
			c[len(c)/2] ^= 1
			return s, c
		}, nil, "nothing was installed"},
		"a short archive": {func(s, c []byte) ([]byte, []byte) { return s, c[:len(c)-1] }, nil, "nothing was installed"},
		"no archive":      {func(s, _ []byte) ([]byte, []byte) { return s, nil }, nil, "cannot download"},
		"no checksums":    {func(_, c []byte) ([]byte, []byte) { return nil, c }, nil, "cannot download"},
		"checksums of others": {
			func(_, c []byte) ([]byte, []byte) { return []byte("00  other\n"), c }, nil, "does not name",
		},
		"two checksums": {
			func(s, c []byte) ([]byte, []byte) { return slices.Repeat(s, 2), c }, nil, "no single checksum",
		},
		"a version of other form": {nil, []string{"PENSTOCK_VERSION=1.0"}, "vX.Y.Z"},
		"a version without files": {nil, []string{"PENSTOCK_VERSION=v9.9.9"}, "does not name penstock_9.9.9"},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			parts := map[string][]byte{"install.sh": nil, checksumsName: nil, archive: nil}
			for name := range parts {
				content, err := os.ReadFile(f.file(t, name))
				if err != nil {
					t.Fatal(err)
				}
				parts[name] = content
			}
			if c.change != nil {
				parts[checksumsName], parts[archive] = c.change(parts[checksumsName], parts[archive])
			}
			for name, content := range parts {
				if content == nil {
					continue
				}
				if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			prefix, out, err := installed(t, dir, c.env...)
			if err == nil {
				t.Errorf("it succeeded: %s", out)
			}
			mustContain(t, "install.sh", out, c.says)
			if _, err := os.Stat(prefix); !os.IsNotExist(err) {
				t.Errorf("it wrote %s (%v)", prefix, err)
			}
		})
	}
}
