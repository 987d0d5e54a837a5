package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/transcript"
)

// asMain makes this test's binary be the program: so the tests run the real
// thing, in processes of its own, with the race detector when they have it.
const asMain = "PENSTOCK_TEST_AS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		main()
		return
	}
	if out := os.Getenv(asMeter); out != "" {
		os.Exit(meter(out, os.Args[1:]))
	}
	os.Exit(atHome(m))
}

// asStarted is the environment before atHome changed it: with another home, go would fetch and compile all modules
// anew.
var asStarted = os.Environ()

// atHome runs the tests with a home of their own, so that they do not touch the logins of the user.
func atHome(m *testing.M) int {
	home, err := os.MkdirTemp("", "penstock-home")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(home) }()
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME"} {
		if err := os.Setenv(name, home); err != nil {
			panic(err)
		}
	}
	return m.Run()
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
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute) // hours and ramps take two minutes, and a last one
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

// server is a penstock that runs on.
type server struct {
	cmd  *exec.Cmd
	url  string
	data string // of penstock up: the directory of its store
	said *transcript.Buffer
	done chan struct{}
}

// up starts penstock up and waits until it says where it listens.
func up(t *testing.T, args ...string) *server {
	t.Helper()
	s := started(t, "listening on ", append([]string{"up", "--listen", "127.0.0.1:0"}, args...)...)
	if i := slices.Index(args, "--data"); i >= 0 {
		s.data = args[i+1]
	}
	return s
}

// token is the token of the operator; may be empty.
func (s *server) token(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.data, "admin.token"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// sinking starts a penstock sink.
func sinking(t *testing.T, args ...string) *server {
	t.Helper()
	return started(t, "receiving at ", append([]string{"sink", "--listen", "127.0.0.1:0"}, args...)...)
}

// started starts penstock and waits until it says where it listens, behind a mark.
func started(t *testing.T, mark string, args ...string) *server {
	t.Helper()
	cmd := program(context.Background(), args...)
	s := &server{cmd: cmd, said: &transcript.Buffer{}, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = s.said, s.said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.done)
		_ = cmd.Wait()
	}()
	t.Cleanup(s.kill)
	await.Until(t, "penstock "+args[0]+" says where it listens", func() bool {
		select {
		case <-s.done:
			t.Fatalf("penstock %s ended: %v\n%s", args[0], cmd.ProcessState, s.said)
		default:
		}
		_, text, said := strings.Cut(s.said.String(), mark)
		url, _, whole := strings.Cut(text, "\n")
		s.url = strings.TrimSpace(url)
		return said && whole
	})
	return s
}

// kill is kill -9, and waits until the process is gone.
func (s *server) kill() {
	_ = s.cmd.Process.Kill() // an error means that it has ended
	<-s.done
}
