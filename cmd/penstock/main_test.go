package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// asMain makes this test's binary be the program: so the tests run the real
// thing, in processes of its own, with the race detector when they have it.
const asMain = "PENSTOCK_TEST_AS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// program returns the command that runs penstock.
func program(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), asMain+"=1")
	return cmd
}

// run runs penstock to its end.
func run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := program(ctx, args...)
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), o.String(), e.String()
}

// server is a penstock up that runs.
type server struct {
	cmd  *exec.Cmd
	url  string
	said *lockedBuffer
	done chan struct{}
}

// up starts penstock up and waits until it says where it listens.
func up(t *testing.T, args ...string) *server {
	t.Helper()
	cmd := program(context.Background(), append([]string{"up", "--listen", "127.0.0.1:0"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{cmd: cmd, said: &lockedBuffer{}, done: make(chan struct{})}
	cmd.Stderr = s.said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	urls := make(chan string, 1)
	go func() {
		defer close(s.done)
		lines := bufio.NewScanner(io.TeeReader(out, s.said))
		for lines.Scan() {
			if _, url, ok := strings.Cut(lines.Text(), "listening on "); ok {
				urls <- strings.TrimSpace(url)
			}
		}
		_ = cmd.Wait()
	}()
	t.Cleanup(s.kill)
	select {
	case s.url = <-urls:
	case <-s.done:
		t.Fatalf("penstock up ended: %v\n%s", cmd.ProcessState, s.said)
	case <-time.After(30 * time.Second):
		t.Fatalf("penstock up does not say where it listens:\n%s", s.said)
	}
	return s
}

// kill is kill -9, and waits until the process is gone.
func (s *server) kill() {
	_ = s.cmd.Process.Kill() // an error means that it has ended
	<-s.done
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
