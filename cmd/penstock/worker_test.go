package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/internal/test/transcript"
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

// worker runs examples/worker.py and returns the lines that it prints, and its notices.
func worker(t *testing.T, s *server, queue string) (<-chan string, *transcript.Buffer) {
	t.Helper()
	cmd := exec.Command(python(t), "../../examples/worker.py", s.url, queue)
	cmd.Env = append(os.Environ(), "PENSTOCK_TOKEN="+s.token(t))
	notices := &transcript.Buffer{}
	cmd.Stderr = notices
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
			t.Logf("worker.py said: %s", notices)
		}
	})
	return lines, notices
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

// onRedis runs an ingress on a Redis until the test ends.
func onRedis(t *testing.T) *server {
	t.Helper()
	redis := redistest.New(t, redistest.Options{})
	s := &server{said: &transcript.Buffer{}}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- app.RunIngress(
			ctx, []string{"--redis", redis.URL(), "--init", "--listen", "127.0.0.1:0", "--drain-delay", "0", "--no-auth"},
			io.Discard, s.said,
		)
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the ingress ended with %v", err)
		}
	})
	listens := regexp.MustCompile(`url=(\S+)`)
	await.Until(t, "the ingress listens", func() bool {
		if m := listens.FindStringSubmatch(s.said.String()); m != nil {
			s.url = m[1]
		}
		return s.url != "" || len(ended) > 0
	})
	return s
}

func TestWorkerInPython(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) *server{
		"embedded": func(t *testing.T) *server { t.Helper(); return up(t, "--data", t.TempDir()) },
		"redis":    onRedis,
	} {
		t.Run(name, func(t *testing.T) { worksInPython(t, start(t)) })
	}
}

// worksInPython has a worker take and settle all jobs of a queue, each once.
func worksInPython(t *testing.T, s *server) {
	t.Helper()
	must(t, s, "queue", "set", "resize", "rate=100/s", "pull=true")
	if out := must(t, s, "queue", "info", "resize"); !strings.Contains(out, "pull") {
		t.Errorf("info does not tell of pull:\n%s", out)
	}
	lines, _ := worker(t, s, "resize") // waits: there is nothing yet
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
	await.Until(t, "what it settled last is delivered", func() bool {
		return strings.Contains(must(t, s, "queue", "info", "resize", "-o", "json"), `"delivered": 400`)
	})

	// A queue that is not for workers: it says so, and works once the queue is.
	must(t, s, "queue", "set", "plain", "rate=1/s")
	later, notices := worker(t, s, "plain")
	await.Until(t, "it says why it gets no jobs", func() bool {
		return strings.Contains(notices.String(), "not a pull queue")
	})
	must(t, s, "queue", "set", "plain", "pull=true")
	must(t, s, "push", "plain", "-f", "../../examples/messages.ndjson")
	next(t, later)
}
