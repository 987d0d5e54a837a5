// Package penstocktest starts servers and engines for tests of programs that use Penstock.
package penstocktest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/client"
)

// Server is a running server with an empty store in memory.
type Server struct {
	URL   string
	Token string
	PID   int
	// Client is a client of the server.
	Client *client.Client

	stdin io.Closer
	cmd   *exec.Cmd
	stop  sync.Once
	err   error
}

// Option is an option of Start.
type Option func(*options)

type options struct {
	args   []string
	client []client.Option
}

// VirtualClock gives the server a clock that Advance sets ahead. Between advances it runs like the wall clock.
func VirtualClock() Option { return Args("--clock", "virtual") }

// Args adds arguments of "penstock up".
func Args(args ...string) Option { return func(o *options) { o.args = append(o.args, args...) } }

// ClientOptions adds options of the Client.
func ClientOptions(of ...client.Option) Option {
	return func(o *options) { o.client = append(o.client, of...) }
}

// startup is how long a server may take to start, and to stop.
const startup = 30 * time.Second

// Start starts a server that stops with the test. The program is the one that PENSTOCK_BIN names, or else penstock in
// PATH. Without one, the test fails.
func Start(t testing.TB, with ...Option) *Server {
	t.Helper()
	s, err := start(with)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func start(with []Option) (*Server, error) {
	var o options
	for _, option := range with {
		option(&o)
	}
	program := os.Getenv("PENSTOCK_BIN")
	if program == "" {
		var err error
		if program, err = exec.LookPath("penstock"); err != nil {
			return nil, errors.New("penstock is not installed: put it into PATH, or name it in PENSTOCK_BIN")
		}
	}
	// It outlives every context: Close ends it.
	s := &Server{
		cmd: exec.CommandContext(context.Background(), program, append([]string{"up", "--ephemeral"}, o.args...)...),
	}
	var faults strings.Builder
	s.cmd.Stderr = &faults
	s.cmd.WaitDelay = time.Second // do not wait for processes that inherited the output
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	late := time.AfterFunc(startup, func() { _ = s.cmd.Process.Kill() })
	lines := bufio.NewReader(out)
	line, err := lines.ReadBytes('\n')
	started := late.Stop()
	var ready struct {
		URL   string `json:"url"`
		Token string `json:"token"`
		PID   int    `json:"pid"`
	}
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	if err != nil || !started {
		_ = s.stdin.Close()
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait() // it was killed
		return nil, fmt.Errorf("%s did not start: %w\n%s%s", strings.Join(s.cmd.Args, " "), err, line, faults.String())
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	s.URL, s.Token, s.PID = ready.URL, ready.Token, ready.PID
	s.Client, err = client.New(s.URL, append([]client.Option{client.WithToken(s.Token)}, o.client...)...)
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// Stop stops the server. Further calls do nothing.
func (s *Server) Stop() error {
	s.stop.Do(func() {
		_ = s.stdin.Close() // the server ends when its input does
		late := time.AfterFunc(startup, func() { _ = s.cmd.Process.Kill() })
		defer late.Stop()
		if err := s.cmd.Wait(); err != nil {
			s.err = fmt.Errorf("penstock: %w", err)
		}
	})
	return s.err
}

// Advance moves a virtual clock, and returns its time after all that is due by then has happened. That may take up to
// 5 minutes.
func (s *Server) Advance(ctx context.Context, by time.Duration) (time.Time, error) {
	var answer struct {
		Now time.Time `json:"now"`
	}
	_, err := s.Client.Do(ctx, &client.Request{
		Method: http.MethodPost, Path: "/v1/clock", Body: map[string]string{"advance": by.String()}, Wait: 5 * time.Minute,
	}, &answer)
	return answer.Now, err
}
