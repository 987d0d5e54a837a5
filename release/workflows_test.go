package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// actionlintVersion is not in go.mod, because actionlint needs other versions of what Penstock needs.
const actionlintVersion = "v1.7.12"

// lintWorkflows returns what actionlint and shellcheck say about the workflows of a repository. It is empty if they
// find nothing.
func lintWorkflows(t *testing.T, repository string) string {
	t.Helper()
	shellcheck := strings.TrimSpace(tool(t, "sh", "-c", "command -v shellcheck")) // actionlint is silent if it is missing
	cmd := exec.CommandContext(t.Context(), actionlint(t), "-shellcheck", shellcheck, "-no-color")
	cmd.Dir = repository
	out, err := cmd.CombinedOutput()
	if exit := (&exec.ExitError{}); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Fatalf("actionlint: %v\n%s", err, out)
	}
	if (err == nil) != (len(out) == 0) {
		t.Fatalf("actionlint: %v, and yet it says %q", err, out)
	}
	return string(out)
}

// actionlint returns the path of the program, and builds it if needed.
func actionlint(t *testing.T) string {
	t.Helper()
	path := filepath.Join(work, "bin", "actionlint")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	cmd := exec.CommandContext(
		t.Context(), "go", "install", "github.com/rhysd/actionlint/cmd/actionlint@"+actionlintVersion,
	)
	cmd.Env = append(os.Environ(), "GOBIN="+filepath.Dir(path))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("actionlint: %v\n%s", err, out)
	}
	return path
}

func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob("../.github/workflows/*.yml")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	if found := lintWorkflows(t, ".."); found != "" {
		t.Error(found)
	}
}

// What the workflows must not lose: who starts them, what they run, and what the release may do.
func TestWorkflowsRunTheChecks(t *testing.T) {
	for name, parts := range map[string][]string{
		"check.yml": {"\n  pull_request:\n", "run: make check\n", "\npermissions:\n  contents: read\n", "fetch-depth: 0"},
		"release.yml": {
			`tags: ["v[0-9]+.[0-9]+.[0-9]+"]`, "uses: ./.github/workflows/check.yml", "needs: check\n",
			"needs: check-release\n", "run: make release VERSION=",
			"\npermissions:\n  contents: read\n", "make check-release",
		},
	} {
		content, err := os.ReadFile("../.github/workflows/" + name)
		if err != nil {
			t.Fatal(err)
		}
		mustContain(t, name, string(content), parts...)
	}
}

func TestBrokenWorkflows(t *testing.T) {
	content, err := os.ReadFile("../.github/workflows/release.yml")
	if err != nil {
		t.Fatal(err)
	}
	check, err := os.ReadFile("../.github/workflows/check.yml")
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string][2]string{
		"an unknown job":     {"needs: check", "needs: tests"},
		"an unknown context": {"secrets.GITHUB_TOKEN", "secret.GITHUB_TOKEN"},
		"an unknown key":     {"timeout-minutes", "timeout"},
		"an unquoted word":   {`VERSION="$VERSION"`, `VERSION=$VERSION`},
		"an unknown scope":   {"packages: write", "package: write"},
	} {
		broken := strings.ReplaceAll(string(content), change[0], change[1])
		if broken == string(content) {
			t.Fatalf("%s: release.yml has no %q", what, change[0])
		}
		dir := t.TempDir()
		for name, text := range map[string]string{"release.yml": broken, "check.yml": string(check)} {
			if err := os.MkdirAll(filepath.Join(dir, ".github", "workflows"), 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, dir, filepath.Join(".github", "workflows", name), text)
		}
		tool(t, "git", "-C", dir, "init", "-q")
		if lintWorkflows(t, dir) == "" {
			t.Errorf("%s is not found", what)
		}
	}
}
