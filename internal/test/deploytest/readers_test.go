package deploytest

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// tools has the programs that the tests run, built once.
var tools string

func TestMain(m *testing.M) {
	code := func() int {
		dir, err := os.MkdirTemp("", "deploytest-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		tools = dir
		if err := os.Setenv("XDG_CONFIG_HOME", dir); err != nil { // no login of whoever runs this is touched
			panic(err)
		}
		return m.Run()
	}()
	os.Exit(code)
}

// tool builds a program of the repository, unless it was built before, and returns its path.
func tool(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(tools, filepath.Base(dir))
	if _, err := os.Stat(path); err == nil {
		return path
	}
	// readers is a module of its own, hence -C. What it imports is fetched the first time, like every dependency.
	// It is built as what is shipped, which other tests have compiled.
	build := exec.CommandContext(t.Context(), "go", "build", "-C", filepath.Join(root, dir), "-trimpath",
		"-ldflags", "-s -w", "-o", path, ".")
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", dir, err, out)
	}
	return path
}

// refused is what a reader has against a text.
type refused struct{ said string }

func (r *refused) Error() string { return r.said }

// readAs has a text read by the parser of the program that it is for. The error is a *refused.
func readAs(t *testing.T, text string, into any, args ...string) error {
	t.Helper()
	asked := strings.Join(args, " ") + "\n" + text
	out, ok := answers[asked]
	if !ok {
		out = ask(t, text, args)
		answers[asked] = out
	}
	if out.refused != "" {
		return &refused{out.refused}
	}
	if err := json.Unmarshal(out.json, into); err != nil {
		t.Fatalf("readers %v: %v\n%s", args, err, out.json)
	}
	return nil
}

// answer is what a reader made of a text.
type answer struct {
	json    []byte
	refused string
}

// answers are those that were given: the same text is asked about often. Tests that ask do not run side by side.
var answers = map[string]answer{}

func ask(t *testing.T, text string, args []string) answer {
	t.Helper()
	run := exec.CommandContext(t.Context(), tool(t, "internal/test/deploytest/readers"), args...)
	run.Stdin = strings.NewReader(text)
	var said bytes.Buffer
	run.Stderr = &said
	out, err := run.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return answer{refused: strings.TrimSpace(said.String())}
	}
	if err != nil {
		t.Fatalf("readers %v: %v\n%s", args, err, said.String())
	}
	return answer{json: out}
}
