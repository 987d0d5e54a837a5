package main

import (
	"bufio"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// python is the interpreter that the example for workers runs in.
func python(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal("this test runs examples/worker.py, which needs python3: install it")
	}
	return path
}

// worker runs examples/worker.py and returns the lines that it prints.
func worker(t *testing.T, server, queue string) <-chan string {
	t.Helper()
	cmd := exec.Command(python(t), "../../examples/worker.py", server, queue)
	var errs lockedBuffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines, ended := make(chan string, 1000), make(chan struct{})
	go func() {
		defer close(ended)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
		_ = cmd.Wait()
		close(lines)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // an error means that it has ended
		<-ended
		if t.Failed() {
			t.Logf("worker.py said: %s", errs.String())
		}
	})
	return lines
}

// next is the next line of a worker.
func next(t *testing.T, lines <-chan string) string {
	t.Helper()
	select {
	case line, ok := <-lines:
		if !ok {
			t.Fatal("the worker ended")
		}
		return line
	case <-time.After(time.Minute):
		t.Fatal("the worker printed nothing for a minute")
	}
	return ""
}

// must runs penstock and returns what it printed.
func must(t *testing.T, s *server, args ...string) string {
	t.Helper()
	code, out, errs := run(t, append(args, "--server", s.url)...)
	if code != 0 {
		t.Fatalf("%v: exit %d\n%s%s", args, code, out, errs)
	}
	return out
}

func TestWorkerInPython(t *testing.T) {
	s := up(t, "--data", t.TempDir())
	must(t, s, "queue", "set", "resize", "rate=100/s", "pull=true")
	if out := must(t, s, "queue", "info", "resize"); !strings.Contains(out, "pull") {
		t.Errorf("info does not tell of pull:\n%s", out)
	}
	lines := worker(t, s.url, "resize") // waits: there is nothing yet
	must(t, s, "push", "resize", "-f", "../../examples/messages.ndjson")
	seen := map[string]int{}
	for range 400 {
		id, _, _ := strings.Cut(next(t, lines), " ")
		seen[id]++
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s came %d times", id, n)
		}
	}
	// What it settled last may still be on its way.
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		out := must(t, s, "queue", "info", "resize", "-o", "json")
		if strings.Contains(out, `"delivered": 400`) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not all were delivered:\n%s", out)
		}
	}

	// A queue that is not for workers: it says so and ends.
	must(t, s, "queue", "set", "plain", "rate=1/s")
	refused := worker(t, s.url, "plain")
	select {
	case line, ok := <-refused:
		if ok {
			t.Errorf("it got %s", line)
		}
	case <-time.After(time.Minute):
		t.Error("it asks on")
	}
}

// What docs/api.md shows of paced pull works when pasted.
func TestPacedPullOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(page), "\n## Paced pull\n")
	if !ok {
		t.Fatal("docs/api.md has no section Paced pull")
	}
	block := regexp.MustCompile(`(?m)(^    .*\n)+`).FindString(section)
	s := up(t, "--data", t.TempDir())
	if out := paste(t, strings.ReplaceAll(block, "http://127.0.0.1:8080", s.url)); !strings.Contains(out, `{"jobs":[{"id":"image-7","state":"delivered"}]}`) {
		t.Errorf("%s\n%s", block, out)
	}
}
