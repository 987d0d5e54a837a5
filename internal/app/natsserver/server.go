// Package natsserver runs a nats-server with JetStream inside this process: for `penstock up`, where nobody else can
// reach it, and with a listener on loopback for tests, alone or as a cluster of three.
//
// Every write is on disk before it is acknowledged, unless asked otherwise. Two processes must not use one directory:
// who embeds it holds a lock of his own there, as `penstock up` does on its store.
//
// It does not import testing, so that a benchmark command can use it too.
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
	// MaxPayload is the largest message by default: a job of queue.MaxPayloadBytes and all that goes with it, several
	// times over.
	MaxPayload = 8 << 20

	startTimeout = 30 * time.Second
	maxStore     = 1 << 60
	maxMemory    = 64 << 20 // for memory streams, which nobody here makes; 0 would reserve three quarters of the machine's
)

// Options of Start. Zero fields mean the defaults named.
type Options struct {
	// Dir keeps the streams. It must be given; it is made if it is not there.
	Dir string
	// Listen is the host:port for clients; port 0 takes a free one, which Restart keeps. Empty: nobody but this process.
	Listen string
	// MaxStore bounds the bytes on disk, and what all streams together may be made to hold; 0 is no bound but the
	// streams' own. (nats-server's default, three quarters of what is free, counts what is stored as gone, and so
	// shrinks with every start: first it refuses a stream that reserves more, and later what a stream has room for.)
	MaxStore int64
	// MaxPayload is the largest message; the constant of that name.
	MaxPayload int32
	// LazySync leaves it to the operating system when writes reach the disk, for two minutes at most, as nats-server
	// does by default.
	LazySync bool
	// Logger receives the server's warnings and errors, and on debug its notices; nil discards them.
	Logger *slog.Logger

	cluster *membership
}

// Server is a nats-server, and after Stop and Restart the next one on the same directory and port. Its methods may be
// called from many goroutines.
type Server struct {
	opts Options
	name string

	mu   sync.Mutex
	srv  *server.Server
	port int
}

// Start starts a server and returns when it serves. The caller ends it with Stop.
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

// Restart stops the server if it runs and starts it again on the same directory and port.
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

// settings are those of nats-server. It must be called with mu held.
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

// await returns when clients can connect and JetStream runs. What keeps the server from it, it only tells the log.
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

// URL is where clients connect, the same through restarts; empty without a listener.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.port == 0 {
		return ""
	}
	host, _, _ := net.SplitHostPort(s.opts.Listen)
	return "nats://" + net.JoinHostPort(host, strconv.Itoa(s.port))
}

// InProcessConn implements nats.InProcessConnProvider, over restarts too.
func (s *Server) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.srv == nil {
		return nil, errors.New("natsserver: stopped")
	}
	return s.srv.InProcessConn()
}

// Connect returns a connection within the process, which the caller closes. It holds nothing back for a server that
// is away, and never gives up.
func (s *Server) Connect(options ...nats.Option) (*nats.Conn, error) {
	return nats.Connect("", append([]nats.Option{
		nats.InProcessServer(s), nats.ReconnectBufSize(-1), nats.MaxReconnects(-1),
		nats.ReconnectWait(100 * time.Millisecond),
	}, options...)...)
}

// Stop ends the server and returns when it is gone. Twice is no error.
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
