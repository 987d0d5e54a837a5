// Package natsserver runs a nats-server with JetStream inside this process: for `penstock up`, without a listener, and
// for tests with a listener on loopback, alone or as a cluster.
//
// By default every write is on disk before it is acknowledged. Two processes must not use one directory; the caller
// ensures that with a lock of its own, as `penstock up` does on its store.
//
// The package does not import testing, so that a benchmark command can use it too.
package natsserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

const (
	// MaxPayload is the default size limit of messages: several times queue.MaxPayloadBytes and all that goes with it.
	MaxPayload = 8 << 20

	startTimeout = 30 * time.Second
	maxStore     = 1 << 60
	maxMemory    = 64 << 20 // for memory streams, which are not used; 0 would reserve three quarters of the machine's
)

// Options are the settings of Start. Zero fields mean the defaults named here.
type Options struct {
	// Dir is the directory of the streams. It is required, and created if missing.
	Dir string
	// Listen is the host:port for clients; port 0 picks a free port, which Restart keeps. Empty means no listener.
	Listen string
	// MaxStore limits the bytes on disk and the total size of all streams; 0 means only the streams' own limits.
	// (nats-server's default, three quarters of the free space, does not count what is stored, so it shrinks with every
	// start. Then it refuses a stream that reserves more, and later messages that the stream has room for.)
	MaxStore int64
	// MaxPayload is the size limit of messages; the default is the constant MaxPayload.
	MaxPayload int32
	// LazySync lets the operating system delay writes to disk, for at most two minutes, as nats-server does by default.
	LazySync bool
	// Logger receives the server's warnings and errors, and its notices at debug level; nil discards them.
	Logger *slog.Logger

	cluster *membership
}

// Server is a nats-server that can be stopped and restarted on the same directory and port. It is safe for concurrent
// use.
type Server struct {
	opts Options
	name string

	mu   sync.Mutex
	srv  *server.Server
	port int
}

// Start starts a server and returns when it serves. The caller calls Stop.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.Dir == "" {
		return nil, errors.New("natsserver: no directory given")
	}
	if o.MaxStore < 0 {
		return nil, fmt.Errorf("natsserver: MaxStore %d: must not be negative", o.MaxStore)
	}
	if o.MaxStore == 0 {
		o.MaxStore = maxStore
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.MaxPayload == 0 {
		o.MaxPayload = MaxPayload
	}
	s := &Server{opts: o, name: "penstock"}
	if o.cluster != nil {
		s.name = o.cluster.name
	}
	if err := s.Restart(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Restart stops the server if it runs, and starts it again on the same directory and port.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
	o, err := s.settings()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.opts.Dir, 0o700); err != nil {
		return fmt.Errorf("natsserver: %w", err)
	}
	srv, err := server.NewServer(o)
	if err != nil {
		return fmt.Errorf("natsserver: %w", err)
	}
	log := &logger{log: s.opts.Logger}
	srv.SetLoggerV2(log, true, false, false)
	s.srv = srv
	srv.Start()
	if err := s.await(ctx, log); err != nil {
		s.stop()
		return fmt.Errorf("natsserver: in %s: %w", s.opts.Dir, err)
	}
	s.pin()
	return nil
}

// settings returns the options of nats-server. mu is held.
func (s *Server) settings() (*server.Options, error) {
	o := &server.Options{
		ServerName: s.name, DontListen: true, NoSigs: true, DisableJetStreamBanner: true, MaxPayload: s.opts.MaxPayload,
		MaxPending: 8 * MaxPayload,
		JetStream:  true, StoreDir: s.opts.Dir, SyncAlways: !s.opts.LazySync, SyncInterval: 2 * time.Minute,
		JetStreamMaxMemory: maxMemory, JetStreamMaxStore: s.opts.MaxStore,
	}
	if s.opts.Listen != "" {
		host, port, err := net.SplitHostPort(s.opts.Listen)
		if err != nil {
			return nil, fmt.Errorf("natsserver: listen on %q: %w", s.opts.Listen, err)
		}
		n, err := strconv.Atoi(port)
		if err != nil || n < 0 || n > 65535 {
			return nil, fmt.Errorf("natsserver: listen on %q: no valid port", s.opts.Listen)
		}
		if o.DontListen, o.Host, o.Port = false, host, n; n == 0 {
			o.Port = server.RANDOM_PORT
		}
		if s.port != 0 {
			o.Port = s.port
		}
	}
	if s.opts.cluster != nil {
		s.opts.cluster.apply(o)
	}
	return o, nil
}

// await returns when clients can connect and JetStream runs. The server reports errors of its start only to its log.
func (s *Server) await(ctx context.Context, log *logger) error {
	deadline := time.Now().Add(startTimeout)
	for {
		ready := s.srv.ReadyForConnections(50 * time.Millisecond)
		if err := log.fatal(); err != nil {
			return err
		}
		if ready && s.srv.JetStreamEnabled() {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not ready for connections after %v", startTimeout)
		}
	}
}

// pin keeps the ports for the next start.
func (s *Server) pin() {
	if a, ok := s.srv.Addr().(*net.TCPAddr); ok {
		s.port = a.Port
	}
	if s.opts.cluster != nil {
		s.opts.cluster.pin(s.srv.ClusterAddr())
	}
}

// URL returns the URL for clients, which restarts do not change. It is empty without a listener.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.port == 0 {
		return ""
	}
	host, _, _ := net.SplitHostPort(s.opts.Listen)
	return "nats://" + net.JoinHostPort(host, strconv.Itoa(s.port))
}

// InProcessConn implements nats.InProcessConnProvider. It works across restarts.
func (s *Server) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.srv == nil {
		return nil, errors.New("natsserver: stopped")
	}
	return s.srv.InProcessConn()
}

// Connect returns a connection within the process, which the caller closes. The connection buffers nothing while the
// server is away, and reconnects forever.
func (s *Server) Connect(options ...nats.Option) (*nats.Conn, error) {
	return nats.Connect("", append([]nats.Option{
		nats.InProcessServer(s), nats.ReconnectBufSize(-1), nats.MaxReconnects(-1),
		nats.ReconnectWait(100 * time.Millisecond),
	}, options...)...)
}

// Stop stops the server and waits until it has ended. Calling it again does nothing.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
}

func (s *Server) stop() {
	if s.srv != nil {
		s.srv.Shutdown()
		s.srv.WaitForShutdown()
		s.srv = nil
	}
}
