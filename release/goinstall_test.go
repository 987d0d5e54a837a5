package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	gomodule "golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// `go install github.com/penstock/penstock/cmd/penstock@v0.1.0` builds a program that reports that version. The module
// comes from a proxy in a folder, with the files of the work tree.
func TestGoInstallReportsItsVersion(t *testing.T) {
	dir := t.TempDir()
	sources, proxy := filepath.Join(dir, "sources"), filepath.Join(dir, "proxy")
	if err := copyWorkTree(sources); err != nil {
		t.Fatal(err)
	}
	publish(t, sources, proxy, gomodule.Version{Path: home, Version: "v0.1.0"})

	cache := strings.TrimSpace(tool(t, "go", "env", "GOMODCACHE"))
	bin := filepath.Join(dir, "bin")
	install := exec.CommandContext(t.Context(), "go", "install", "-trimpath", "-ldflags=-s -w",
		home+"/cmd/penstock@v0.1.0")
	install.Dir = dir // outside of any module
	install.Env = append(os.Environ(), "GOBIN="+bin, "GOFLAGS=-modcacherw", "CGO_ENABLED=0", "GOWORK=off",
		"GOMODCACHE="+filepath.Join(dir, "modules"), "GONOPROXY=none", "GOPRIVATE=",
		"GOSUMDB=off", // the modules come from the machine's cache, where go.sum has verified them
		"GOPROXY=file://"+proxy+",file://"+filepath.Join(cache, "cache", "download"))
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := tool(t, filepath.Join(bin, "penstock"), "--version"); got != "v0.1.0\n" {
		t.Errorf("penstock --version: %q", got)
	}
	mustContain(t, "penstock version", tool(t, filepath.Join(bin, "penstock"), "version"), "penstock v0.1.0 (go")
}

// publish writes a module as a proxy serves it.
func publish(t *testing.T, sources, proxy string, m gomodule.Version) {
	t.Helper()
	at := filepath.Join(proxy, m.Path, "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(sources, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	info, err := json.Marshal(map[string]string{"Version": m.Version, "Time": "2026-01-02T03:04:05Z"})
	if err != nil {
		t.Fatal(err)
	}
	write(t, at, "list", m.Version+"\n")
	write(t, at, m.Version+".mod", string(mod))
	write(t, at, m.Version+".info", string(info))
	archive, err := os.Create(filepath.Join(at, m.Version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	if err := zip.CreateFromDir(archive, m, sources); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
}
