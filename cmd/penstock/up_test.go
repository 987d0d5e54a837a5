package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/await"
)

// paste runs what up printed in a shell.
func paste(t *testing.T, line string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", line)
	cmd.Env = append(os.Environ(), "PATH="+curlPath(t)+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%v\n%s", line, err, out)
	}
	return string(out)
}

// curlPath is a directory with a penstock in it, so that every line can be pasted.
func curlPath(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("this test pastes what penstock up prints, which needs curl: install it")
	}
	dir := t.TempDir()
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\n" + asMain + "=1 exec '" + self + "' \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "penstock"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// commands are the lines that up printed to be pasted.
func commands(t *testing.T, s *server, want int) (lines []string) {
	t.Helper()
	await.Until(t, fmt.Sprintf("%d commands are printed", want), func() bool {
		lines = nil
		for line := range strings.Lines(s.said.String()) {
			if strings.HasPrefix(line, "curl ") || strings.HasPrefix(line, "penstock ") && strings.HasSuffix(line, "--watch\n") {
				lines = append(lines, strings.TrimSuffix(line, "\n"))
			}
		}
		return len(lines) >= want
	})
	return lines
}

// Without the flag, targets on this machine are refused, so the printed commands use none and name the flag.
func TestGreetingNamesTheEgressFlag(t *testing.T) {
	t.Parallel()
	s := up(t, "--data", t.TempDir())
	lines := commands(t, s, 4)
	if out := paste(t, lines[0]); !strings.Contains(out, `"rate":"5/s"`) ||
		!strings.Contains(s.said.String(), "--egress-allow 127.0.0.1") {
		t.Errorf("%s\n%s", s.said, out)
	}
	paste(t, lines[1])
	if out := paste(t, lines[2]); !strings.Contains(out, `"payload":{"to":"a@example.com"}`) {
		t.Errorf("the job does not arrive at who asks for it: %s\n%s", lines[2], out)
	}
	target := `{"rate":"5/s","deliver":{"http":{"url":"http://127.0.0.1:9000/"}}}`
	if out := paste(t, strings.Replace(
		lines[0], `{"rate":"5/s","pull":true}`, target, 1,
	)); !strings.Contains(out, "--egress-allow") {
		t.Errorf("a target on this machine is not refused: %s", out)
	}
}

func TestGreetingWorksWhenPasted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := up(t, "--data", dir, "--egress-allow", "127.0.0.1")
	lines := commands(t, s, 3)
	arrived := sinking(t)
	if !strings.Contains(s.said.String(), "\npenstock sink\n") {
		t.Errorf("it does not say how to see what arrives:\n%s", s.said)
	}
	if out := paste(t, strings.Replace(
		lines[0], "http://127.0.0.1:9000/", arrived.url, 1,
	)); !strings.Contains(out, `"rate":"5/s"`) {
		t.Errorf("%s\n%s", lines[0], out)
	}
	if out := paste(t, lines[1]); !strings.Contains(out, `"state":"waiting"`) {
		t.Errorf("%s\n%s", lines[1], out)
	}
	await.Until(t, "the job arrives", func() bool {
		return strings.Contains(arrived.said.String(), `POST /  200  hello `)
	})
	if out := paste(t, strings.TrimSuffix(lines[2], " --watch")); !strings.Contains(out, "hello") {
		t.Errorf("%s\n%s", lines[2], out)
	}

	// The store is taken: a second one says so, and what to do.
	if code, _, errs := run(t, "up", "--data", dir, "--listen", "127.0.0.1:0"); code != 1 || !strings.Contains(errs, dir) {
		t.Errorf("a second up on the same directory: exit %d, %s", code, errs)
	}

	// SIGTERM ends it in order, and the next one offers the queue that is there.
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.done:
	case <-time.After(40 * time.Second):
		t.Fatalf("SIGTERM did not end it:\n%s", s.said)
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit %d after SIGTERM:\n%s", code, s.said)
	}
	again := up(t, "--data", dir)
	if out := paste(t, commands(t, again, 2)[0]); !strings.Contains(out, `"state":"waiting"`) {
		t.Error(out)
	}
}

func TestUpCreatesTheQueuesOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queues.yaml")
	if err := os.WriteFile(path, []byte("queues:\n  - {name: email, rate: 14/s}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := up(t, "--data", t.TempDir(), "--config", path)
	if lines := commands(t, s, 2); !strings.Contains(lines[0], "/v1/queues/email/jobs") ||
		!strings.Contains(paste(t, lines[0]), `"state"`) {
		t.Errorf("%q", lines)
	}
	if _, out, errs := run(t, "queue", "info", "email", "-o", "json", "--server", s.url); !strings.Contains(
		out, `"rate": "14/s"`,
	) {
		t.Errorf("%s%s", out, errs)
	}
	if err := os.WriteFile(path, []byte("queues:\n  - {name: email, rate: 0/s}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := run(t, "up", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--config", path); code != 2 ||
		!strings.Contains(errs, "queues[0].rate") {
		t.Errorf("exit %d, %s", code, errs)
	}
}

func TestUpRefusesTheOpenNetwork(t *testing.T) {
	if code, _, errs := run(t, "up", "--data", t.TempDir(), "--listen", "0.0.0.0:0"); code == 0 ||
		!strings.Contains(errs, "--insecure") {
		t.Errorf("exit %d, %s", code, errs)
	}
}

// TestPushOfExamples brings the example files in through the built program.
func TestPushOfExamples(t *testing.T) {
	t.Parallel()
	s := up(t, "--data", t.TempDir())
	for _, args := range [][]string{
		{"queue", "set", "email", "rate=1/h"},
		{"push", "email", "-f", "../../examples/messages.ndjson"},
		{"push", "email", "-f", "../../examples/messages.csv"},
	} {
		if code, out, errs := run(t, append(args, "--server", s.url)...); code != 0 {
			t.Errorf("%v: exit %d\n%s%s", args, code, out, errs)
		}
	}
	code, out, _ := run(t, "push", "email", "-f", "../../examples/messages.ndjson", "--server", s.url)
	if code != 0 || !bytes.Contains([]byte(out), []byte("400 read: 0 accepted, 400 duplicate")) {
		t.Errorf("again: exit %d, %s", code, out)
	}
}
