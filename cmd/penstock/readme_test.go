package main

import (
	"os"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/test/await"
)

// indented are the lines of code in a section of README.md, each whole.
func indented(t *testing.T, section string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n## "+section+"\n")
	body, _, _ := strings.Cut(rest, "\n## ")
	if !found {
		t.Fatalf("README.md has no section %q", section)
	}
	for line := range strings.Lines(strings.ReplaceAll(body, "\\\n", "")) {
		if code, ok := strings.CutPrefix(line, "    "); ok {
			lines = append(lines, strings.TrimSpace(code))
		}
	}
	return lines
}

// What README's "Use it" prints works when it is pasted, in its order, and the jobs arrive.
func TestREADMEUseIt(t *testing.T) {
	t.Parallel()
	arrived := sinking(t)
	s := up(t, "--data", t.TempDir(), "--egress-allow", "127.0.0.1")
	here := strings.NewReplacer("http://127.0.0.1:9000/", arrived.url, "localhost:8080", strings.TrimPrefix(s.url, "http://"), "bin/penstock", "penstock --server "+s.url)
	did := map[string]bool{}
	for _, line := range indented(t, "Use it") {
		command := strings.Join(strings.Fields(line)[:min(2, len(strings.Fields(line)))], " ")
		switch word, _, _ := strings.Cut(command, " "); {
		case strings.HasPrefix(line, "bin/ingress"), strings.HasPrefix(line, "bin/drainer"): // what follows is for Redis
			continue
		case command == "make build", strings.HasPrefix(command, "bin/penstock sink"), strings.HasPrefix(command, "bin/penstock up"):
			continue // this test does so in its own way
		case word == "python3":
			if got := next(t, worker(t, s.url, "resize")); !strings.HasSuffix(got, `{"image": 7}`) {
				t.Errorf("the worker prints %s", got)
			}
		case word == "curl", word == "bin/penstock":
			out := paste(t, "cd ../.. && "+here.Replace(line))
			if strings.Contains(out, "problem") || strings.Contains(out, `"reason"`) {
				t.Errorf("%s\n%s", line, out)
			}
		default:
			continue // an answer
		}
		did[command] = true
	}
	await.Until(t, "the first job arrives", func() bool {
		return strings.Contains(arrived.said.String(), ` 200  email welcome-17  {"to": "a@example.com"}`)
	})
	for _, command := range []string{"curl -X", "curl localhost:8080/v1/queues/email/jobs", "bin/penstock push", "bin/penstock queue", "python3 examples/worker.py"} {
		if !did[command] {
			t.Errorf("README has no %s", command)
		}
	}
}
