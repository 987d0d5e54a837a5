// Package redistest runs real Redis servers on loopback: a single one, a Cluster of masters, and a master with a
// replica under Sentinels. Each has its own port and directory, so that tests and benchmarks run side by side and flush
// no other database. Each can be killed, paused and restarted in place.
//
// Without redis-server there is an error that says how to install it: a test that needs Redis is never skipped
// silently.
//
// The package does not import testing, so that a benchmark command can use it too.
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

// Server is a redis-server that can be stopped and restarted at the same port and directory. It is safe for concurrent
// use.
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

// Start starts a server and returns when it answers. The caller calls Close. ctx limits only the start.
func Start(ctx context.Context, o Options) (*Server, error) {
	return start(ctx, o.RequirePass, o.commandLine)
}

// start starts a server, at another port if a program outside of this package took the claimed one.
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

// open claims the port, creates the directory and starts the first process. On error the caller closes the server.
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

// errPortTaken means that another program listens on the claimed port.
var errPortTaken = errors.New("redistest: the port is in use by another process")

// launch starts a process and waits until it serves. mu is held.
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

// await waits until the started process, and no other, answers at the port.
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

// Addr returns host:port, which restarts do not change.
func (s *Server) Addr() string { return address(s.port.number) }

// URL returns the redis:// URL, with the password if there is one.
func (s *Server) URL() string {
	u := url.URL{Scheme: "redis", Host: s.Addr()}
	if s.password != "" {
		u.User = url.UserPassword("", s.password)
	}
	return u.String()
}

// Dir returns the directory of its files. Close removes it.
func (s *Server) Dir() string { return s.dir }

// Patience is how long a test waits for an answer when the time does not matter: the machine may be busy.
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

// PID returns the process ID of the running or last server.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.pid()
}

// Running reports whether the process is alive, possibly paused.
func (s *Server) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc != nil && !s.proc.ended()
}

// Stop stops the server in good order (SIGTERM); a Redis with an AOF first writes it. Calling it again does nothing.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.terminate(stopGrace)
}

// Kill kills the server (SIGKILL) and waits until it is gone. Calling it again does nothing.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.kill()
}

// Restart stops the server if it runs, starts it again at the same port and directory, and returns when it serves. Only
// data in its AOF survives.
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

// LogTail returns the end of the server's log, for the messages of failed tests.
func (s *Server) LogTail() string {
	const size = 4096
	data, err := os.ReadFile(s.logPath())
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-size):])
}

func (s *Server) logPath() string { return filepath.Join(s.dir, "redis.log") }

// Close kills the server, closes its clients, frees the port and removes the directory. Calling it again does nothing.
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
