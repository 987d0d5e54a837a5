// Package redistest runs real Redis servers on loopback: a single one, a Cluster of masters, and a master with a
// replica under Sentinels. Each has a port and a directory of its own, so that tests and benchmarks run side by side
// and flush nobody's database; each can be killed, paused and restarted in place.
//
// A machine without redis-server is an error that says how to install it: a test that needs Redis never passes by
// not running.
//
// It does not import testing, so that a benchmark command can use it too.
package redistest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	startTimeout = 15 * time.Second
	stopGrace    = 15 * time.Second
)

// Server is one redis-server process, and after Stop, Kill or Restart the next one at the same port and directory.
// Its methods may be called from many goroutines.
type Server struct {
	binary      string
	commandLine func(port int, dir string) []string
	password    string
	port        *port
	dir         string

	clients clients

	mu     sync.Mutex
	proc   *process
	closed bool
}

// Start starts a server and returns when it answers. The caller ends it with Close; it outlives ctx, which bounds
// the start only.
func Start(ctx context.Context, o Options) (*Server, error) {
	return start(ctx, o.RequirePass, o.commandLine)
}

// start tries again at another port when, against all care, a stranger took the one it claimed.
func start(ctx context.Context, password string, commandLine func(int, string) []string) (*Server, error) {
	binary, err := Binary(ctx)
	if err != nil {
		return nil, err
	}
	const attempts = 5
	for attempt := 1; ; attempt++ {
		s := &Server{binary: binary, commandLine: commandLine, password: password}
		err := s.open(ctx)
		if err == nil {
			return s, nil
		}
		err = errors.Join(err, s.Close())
		if attempt == attempts || !errors.Is(err, errPortTaken) {
			return nil, err
		}
	}
}

// open claims the port, makes the directory and starts the first process. On error the caller closes.
func (s *Server) open(ctx context.Context) (err error) {
	if s.port, err = claimPort(ctx); err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp("", "penstock-redis-"); err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.launch(ctx)
}

// errPortTaken means that somebody else listens on the port this server was to have.
var errPortTaken = errors.New("redistest: the port is in use by another process")

// launch starts a process and waits until it serves. It is called with mu held.
func (s *Server) launch(ctx context.Context) error {
	log, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor

	proc, err := startProcess(ctx, s.binary, s.commandLine(s.port.number, s.dir), s.dir, log)
	if err != nil {
		return err
	}
	s.proc = proc
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return s.await(ctx)
}

// await returns when the process it started, and no other, answers at the port.
func (s *Server) await(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		pid, err := probe(ctx, s.Addr(), s.password)
		if err == nil && pid == s.proc.pid() {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("%w: %s is answered by process %d", errPortTaken, s.Addr(), pid)
		}
		select {
		case <-tick.C:
		case <-s.proc.done:
			tail := s.LogTail()
			if strings.Contains(tail, "Address already in use") {
				err = errPortTaken
			}
			return fmt.Errorf("redistest: redis-server ended while starting at %s: %w; its log ends:\n%s", s.Addr(), err, tail)
		case <-ctx.Done():
			return errors.Join(s.proc.kill(),
				fmt.Errorf("redistest: redis-server at %s does not serve: %w; last: %w; its log ends:\n%s",
					s.Addr(), ctx.Err(), err, s.LogTail()))
		}
	}
}

// Addr is its host:port, the same through restarts.
func (s *Server) Addr() string { return address(s.port.number) }

// URL is its redis:// URL, with the password if it has one.
func (s *Server) URL() string {
	u := url.URL{Scheme: "redis", Host: s.Addr()}
	if s.password != "" {
		u.User = url.UserPassword("", s.password)
	}
	return u.String()
}

// Dir is where it keeps its files. Close removes it.
func (s *Server) Dir() string { return s.dir }

// Patience is how long a test waits for an answer that it does not judge by the time it took: the machine may be busy.
const Patience = 30 * time.Second

// Client returns a new client, which Close closes. It never sends a command twice, and heeds a context's deadline
// while it waits for a reply.
func (s *Server) Client() *redis.Client {
	c := redis.NewClient(&redis.Options{
		Addr:                     s.Addr(),
		Password:                 s.password,
		MaxRetries:               -1,
		ContextTimeoutEnabled:    true,
		ReadTimeout:              Patience,
		WriteTimeout:             Patience,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	s.clients.add(c)
	return c
}

// PID is the process id of the running server, or of the one that ran last.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.pid()
}

// Running says whether the process lives; a paused one does.
func (s *Server) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc != nil && !s.proc.ended()
}

// Stop ends the server in good order (SIGTERM): a Redis with an AOF writes it out first. Twice is no error.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.terminate(stopGrace)
}

// Kill ends the server at once (SIGKILL) and returns when it is gone. Twice is no error.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.kill()
}

// Restart stops the server if it runs, starts it again at the same port and directory, and returns when it serves.
// What it still knows then is what its AOF kept.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("redistest: restart %s: it is closed", s.Addr())
	}
	if err := s.proc.terminate(stopGrace); err != nil {
		return err
	}
	return s.launch(ctx)
}

// Pause freezes the server (SIGSTOP): connections stay up, and nothing answers.
func (s *Server) Pause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.signal(syscall.SIGSTOP)
}

// Continue ends a Pause (SIGCONT).
func (s *Server) Continue() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.signal(syscall.SIGCONT)
}

// LogTail is the end of the server's log, for the message of a test that failed.
func (s *Server) LogTail() string {
	const size = 4096
	data, err := os.ReadFile(s.logPath())
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-size):])
}

func (s *Server) logPath() string { return filepath.Join(s.dir, "redis.log") }

// Close kills the server, closes its clients, gives the port back and removes the directory. Twice is no error.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	errs := []error{s.clients.closeAll()}
	if s.proc != nil {
		errs = append(errs, s.proc.kill())
	}
	if s.port != nil {
		errs = append(errs, s.port.release())
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}
