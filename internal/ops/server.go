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

// ServerOptions are the limits of a Server. Zero fields mean the defaults named.
type ServerOptions struct {
	HeaderTimeout  time.Duration // for a request's headers: 10 s
	ReadTimeout    time.Duration // for a whole request, unless its handler moves the deadline: 30 s
	WriteTimeout   time.Duration // for a whole answer, likewise: 60 s
	IdleTimeout    time.Duration // between requests: 2 min
	MaxHeaderBytes int           // 16 KiB, to which net/http adds 4 KiB
	MaxConnections int           // 8,192
	// Memory is what connections and requests are charged to, and handlers by way of ClientOf: 256 MiB of its own.
	Memory *Budget
	// Proxies are the networks of the proxies in front, whose X-Forwarded-For says who the client is. None.
	Proxies []netip.Prefix
	// Refuse answers what the budget has nothing left for. It must not depend on a request. Nil is
	// {"status":"overloaded"}.
	Refuse func(w http.ResponseWriter, err error)
	// Guard stands before what is served; nil is nothing.
	Guard func(http.Handler) http.Handler
	// Own is the body, problem details, in which a status is told that the server answers by itself, before there is
	// a request; said is what it has to say. Nil, or of a status a nil body, leaves the server's own text.
	Own func(status int, said string) []byte
	// ConnContext changes the context of the requests of a connection, which it gets as the system has it, below what
	// limits and protects it. Nil leaves it.
	ConnContext func(context.Context, net.Conn) context.Context
	// CertificateCheck is how often the files of certificates are looked at: 10 s.
	CertificateCheck time.Duration
	// Grace is how long requests may go on when the server stops: 10 s.
	Grace  time.Duration
	Logger *slog.Logger // discards
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
			tell(w, http.StatusServiceUnavailable, "overloaded", err.Error())
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

// Server is an HTTP server with a bound for everything.
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

// NewServer opens the listener, so that a wrong address is known at once and
// Addr can be told; Run serves it. A Server that is never run must be closed.
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
		DisableGeneralOptionsHandler: true, // it would answer "OPTIONS *" past Guard
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 100, MaxReadFrameSize: 16 << 10, MaxDecoderHeaderTableSize: 4 << 10,
			MaxEncoderHeaderTableSize:     4 << 10,
			MaxReceiveBufferPerConnection: http2Buffer, MaxReceiveBufferPerStream: http2Buffer,
		},
		ConnContext: s.connContext,
		ConnState:   connState,
		// What it has to say is about clients that misbehave, which is their affair.
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

// listeners are all that it serves.
func (s *Server) listeners() []net.Listener {
	if s.socket == nil {
		return []net.Listener{s.listener}
	}
	return []net.Listener{s.listener, s.socket}
}

// Certificates are those that it shows; nil without TLS.
func (s *Server) Certificates() *Certificates { return s.certs }

// Addr is where the server listens, with the port it was given.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// URL is Addr as a client on this machine would write it.
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

// Stopping ends when the server begins to stop: what goes on for long, such as a
// stream, should come to an end then.
func (s *Server) Stopping() context.Context { return s.stopping }

// Run serves h until ctx ends; then it lets requests under way finish for up to
// the grace period, and cuts off the rest. It returns nil after a stop, also one that
// had to cut off. It must be called once.
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

// Close closes the listener of a server that is not run. After Run it does nothing.
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
