package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/test/redistest"
)

// nextBuild builds the program as a later version.
func nextBuild(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "penstock")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags",
		"-s -w -X github.com/penstock/penstock/internal/ops.linkedVersion=v99.0.0", "-o", path, ".")
	build.Env = append(asStarted, "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := exec.CommandContext(t.Context(), path, "--version").Output(); err != nil ||
		!strings.Contains(string(out), "v99.0.0") {
		t.Fatalf("%s, %v", out, err)
	}
	return path
}

// TestRollingUpgrade replaces each process under load by one of the next build. Nothing is lost or delivered twice, and
// the rules and the rate hold.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	next := nextBuild(t)
	server := redistest.New(t, redistest.Options{})
	onRedis := []string{"--redis", server.URL(), "--init"}
	faults := []string{"--faults", "restart", "--every", "1s", "--upgrade", next, "-d", "6s"}
	for name, args := range map[string][]string{
		"drainers": append(append([]string{"--rate", "100/s", "--drainers", "3"}, onRedis...), faults...),
		"embedded": append([]string{"--rate", "100/s"}, faults...),
	} {
		t.Run(name, func(t *testing.T) {
			if p := runProof(t, args...); p.Injected < 3 || p.Twice != 0 {
				t.Errorf("%+v", p)
			}
		})
	}
	t.Run("ingresses", func(t *testing.T) {
		lawful(t, proveRules(t, append(onRedis, faults...)...))
	})
}
