package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// ServerOptions are the limits of a Server. Zero fields mean the defaults stated here.
type ServerOptions struct {
	HeaderTimeout  time.Duration // for a request's headers: 10 s
	ReadTimeout    time.Duration // for a whole request, unless its handler moves the deadline: 30 s
	WriteTimeout   time.Duration // for a whole response, unless its handler moves the deadline: 60 s
	IdleTimeout    time.Duration // between requests: 2 min
	MaxHeaderBytes int           // 16 KiB, to which net/http adds 4 KiB
	MaxConnections int           // 8,192
	// Memory is charged for connections and requests, and by handlers through ClientOf. Default: a new budget of 256 MiB.
	Memory *Budget
	// Proxies are the networks of trusted proxies, whose X-Forwarded-For names the client. Default: no proxies.
	Proxies []netip.Prefix
	// Refuse answers when the budget refuses, possibly before a request was read. Default: {"status":"overloaded"}.
	Refuse func(w http.ResponseWriter, err error)
	// Guard wraps the served handler. Default: no wrapper.
	Guard func(http.Handler) http.Handler
	// Own returns the body, as problem details, of a status that net/http answers itself before there is a request. said
	// is the text of net/http. If Own or its result is nil, net/http's text stays.
	Own func(status int, said string) []byte
	// ConnContext changes the context of a connection's requests. It gets the connection of the operating system, below
	// limits and TLS. Default: no change.
	ConnContext func(context.Context, net.Conn) context.Context
	// CertificateCheck is the interval at which certificate files are checked for changes: 10 s.
	CertificateCheck time.Duration
	// Grace is the time that requests get to finish when the server stops: 10 s.
	Grace  time.Duration
	Logger *slog.Logger // default: discard
}

// Defaults of ServerOptions.
const (
	DefaultMaxHeaderBytes = 16 << 10
	DefaultMemory         = 256 << 20
)

func (o *ServerOptions) normalize() {
	o.HeaderTimeout = cmp.Or(o.HeaderTimeout, 10*time.Second)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, 30*time.Second)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, time.Minute)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, 2*time.Minute)
	o.MaxHeaderBytes = cmp.Or(o.MaxHeaderBytes, DefaultMaxHeaderBytes)
	o.MaxConnections = cmp.Or(o.MaxConnections, 8192)
	if o.Memory == nil {
		o.Memory = NewBudget(DefaultMemory)
	}
	if o.Refuse == nil {
		o.Refuse = func(w http.ResponseWriter, err error) {
			w.Header().Set("Retry-After", "1")
			writeStatus(w, http.StatusServiceUnavailable, "overloaded", err.Error())
		}
	}
	if o.Guard == nil {
		o.Guard = func(h http.Handler) http.Handler { return h }
	}
	if o.Own == nil {
		o.Own = func(int, string) []byte { return nil }
	}
	o.CertificateCheck = cmp.Or(o.CertificateCheck, 10*time.Second)
	o.Grace = cmp.Or(o.Grace, 10*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Server is an HTTP server with limits on connections, memory and time.
type Server struct {
	o        ServerOptions
	listener net.Listener
	socket   net.Listener // nil without one
	tls      bool
	charges  *charges
	certs    *Certificates // nil without TLS
	http     *http.Server
	stopping context.Context
	stop     context.CancelFunc
	closed   sync.Once
}

// NewServer opens the listener, so that a wrong address fails at once and Addr is known. Run serves it. A Server that
// does not Run must be closed.
func NewServer(l Listen, o ServerOptions) (*Server, error) {
	o.normalize()
	if o.MaxConnections < 1 {
		return nil, fmt.Errorf("--max-connections %d: must be at least 1", o.MaxConnections)
	}
	s := &Server{o: o, tls: l.TLSCert != ""}
	s.charges = newCharges(o, s.tls)
	var err error
	if s.certs, err = newCertificates(l, o.Logger); err != nil {
		return nil, Misuse(err)
	}
	if s.listener, err = l.bind(s.charges.gate, s.certs); err != nil {
		return nil, err
	}
	if s.socket, err = l.bindSocket(newCharges(o, false).gate); err != nil {
		return nil, errors.Join(err, s.listener.Close())
	}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.http = &http.Server{
		ReadHeaderTimeout: o.HeaderTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout,
		IdleTimeout:                  o.IdleTimeout,
		MaxHeaderBytes:               o.MaxHeaderBytes,
		DisableGeneralOptionsHandler: true, // it would answer "OPTIONS *" without Guard
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 100, MaxReadFrameSize: 16 << 10, MaxDecoderHeaderTableSize: 4 << 10,
			MaxEncoderHeaderTableSize:     4 << 10,
			MaxReceiveBufferPerConnection: http2Buffer, MaxReceiveBufferPerStream: http2Buffer,
		},
		ConnContext: s.connContext,
		ConnState:   connState,
		// Its messages are about misbehaving clients.
		ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
	}
	return s, nil
}

func (s *Server) connContext(ctx context.Context, c net.Conn) context.Context {
	ctx = connAccount(ctx, c)
	if held := inner(c); held != nil && s.o.ConnContext != nil {
		ctx = s.o.ConnContext(ctx, held.Conn)
	}
	return ctx
}

// listeners returns the TCP listener and the Unix socket, if any.
func (s *Server) listeners() []net.Listener {
	if s.socket == nil {
		return []net.Listener{s.listener}
	}
	return []net.Listener{s.listener, s.socket}
}

// Certificates returns the server's certificates; nil without TLS.
func (s *Server) Certificates() *Certificates { return s.certs }

// Addr returns the server's address with its actual port.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// URL returns the URL of the server for clients on this machine.
func (s *Server) URL() string {
	scheme := "http"
	if s.tls {
		scheme = "https"
	}
	host, port, err := net.SplitHostPort(s.Addr().String())
	if err != nil {
		return scheme + "://" + s.Addr().String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// Stopping returns a context that ends when the server begins to stop. Long requests, for example streams, should end
// then.
func (s *Server) Stopping() context.Context { return s.stopping }

// Run serves h until ctx ends. Then it waits up to the grace period for running requests and closes the rest. After a
// stop it returns nil, even if it closed requests. It must be called once.
func (s *Server) Run(ctx context.Context, h http.Handler) error {
	s.http.Handler = s.charges.over(s.o.Guard(h))
	if s.certs != nil {
		watching, end := context.WithCancel(context.WithoutCancel(ctx))
		var watch sync.WaitGroup
		watch.Go(func() { s.certs.watch(watching, s.o.CertificateCheck) })
		defer watch.Wait()
		defer end()
	}
	listeners := s.listeners()
	served := make(chan error, len(listeners))
	for _, ln := range listeners {
		go func() { served <- s.http.Serve(ln) }()
	}
	select {
	case err := <-served:
		s.stop()
		return errors.Join(fmt.Errorf("serving %s: %w", s.Addr(), err), s.http.Close())
	case <-ctx.Done():
	}
	s.stop()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Grace)
	defer cancel()
	err := s.http.Shutdown(grace)
	if err != nil {
		s.o.Logger.Warn("requests were cut off", "grace", s.o.Grace.String())
		err = s.http.Close()
	}
	for range listeners {
		if served := <-served; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
	}
	return err
}

// Close closes the listener of a server that does not run. After Run it does nothing.
func (s *Server) Close() error {
	var err error
	s.closed.Do(func() {
		s.stop()
		for _, ln := range s.listeners() {
			if closed := ln.Close(); !errors.Is(closed, net.ErrClosed) {
				err = errors.Join(err, closed)
			}
		}
	})
	return err
}
