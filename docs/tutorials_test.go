package docs

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/test/await"
)

// groups are the maximum numbers of words of groups of pages: of a folder, or of pages about
// one thing.
var groups = map[string]int{
	"docs/tutorials":   3000,
	"docs/howto":       3500,
	"docs/explanation": 2000,
	"the project":      2200,
	"releases":         900,
}

// ofProject are the pages about the project itself.
var ofProject = map[string]bool{
	"SECURITY.md": true, "CODE_OF_CONDUCT.md": true, "docs/threat-model.md": true, "docs/not-planned.md": true,
}

// ofReleases are the pages about releases and how to install them.
var ofReleases = map[string]bool{"docs/stability.md": true, "deploy/helm/penstock/README.md": true}

// groupOf returns the group of a page, or an empty string.
func groupOf(name string) string {
	dir := path.Dir(name)
	switch {
	case ofProject[name]:
		return "the project"
	case ofReleases[name]:
		return "releases"
	case groups[dir] > 0:
		return dir
	}
	return ""
}

// languages prepares what a page needs to run programs in Go and TypeScript in a clone of the repository.
func (s *site) languages(t testing.TB, here, commands string) {
	t.Helper()
	if strings.Contains(commands, "go build") {
		for _, name := range []string{"go.mod", "go.sum", "client"} {
			if err := os.Symlink(filepath.Join(here, name), filepath.Join(s.dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		out, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE", "GOMODCACHE").Output()
		dirs := strings.Fields(string(out))
		if err != nil || len(dirs) != 2 {
			t.Fatalf("go env: %v, %q", err, out)
		}
		s.env = append(s.env, "CGO_ENABLED=0", "GOFLAGS=-trimpath", "GOCACHE="+dirs[0], "GOMODCACHE="+dirs[1],
			"TMPDIR="+t.TempDir()) // the go command ignores a go.mod in TMPDIR
	}
	if strings.Contains(commands, "node ") {
		s.typescript(t, filepath.Join(here, "clients", "typescript"))
	}
}

// typescript puts the TypeScript client into node_modules, and builds it there as npm install does.
func (s *site) typescript(t testing.TB, from string) {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skipf("this page is not run; install Node.js to run it: %v", err)
	}
	to := filepath.Join(s.dir, "node_modules", "penstock")
	for _, name := range []string{"src", "scripts", "test", "examples"} {
		if err := os.CopyFS(filepath.Join(to, name), os.DirFS(filepath.Join(from, name))); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"package.json", "package-lock.json", "tsconfig.json"} {
		text, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"ci", "--no-audit", "--no-fund", "--ignore-scripts"}, {"run", "build"}} {
		npm := exec.CommandContext(t.Context(), "npm", args...)
		npm.Dir = to
		if out, err := npm.CombinedOutput(); err != nil {
			t.Fatalf("npm %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// mailPort is the port of a test server for mail on a page.
const mailPort = "2525"

var (
	mailSetting = regexp.MustCompile(`\b(port: ?|port=)` + mailPort + `\b`)
	mailServed  = regexp.MustCompile(`smtp://127\.0\.0\.1:(\d+)`)
)

// mailHere replaces the port of the mail server: by 0 in the command that starts it, by its own port elsewhere.
func (s *site) mailHere(text string) string {
	text = strings.ReplaceAll(text, "--smtp 127.0.0.1:"+mailPort, "--smtp 127.0.0.1:0")
	if _, port, found := strings.Cut(s.servers[mailPort], ":"); found {
		text = mailSetting.ReplaceAllString(text, "${1}"+port)
	}
	return text
}

// mailAt waits for the port of a mail server that a page starts.
func (s *site) mailAt(t testing.TB, d *daemon) {
	t.Helper()
	if !strings.Contains(d.line, "--smtp ") {
		return
	}
	await.Until(t, d.line+" listens", func() bool {
		at := mailServed.FindStringSubmatch(d.said.String())
		if at != nil {
			s.servers[mailPort] = "127.0.0.1:" + at[1]
		}
		return at != nil
	})
}
