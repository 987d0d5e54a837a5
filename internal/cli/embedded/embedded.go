// Package embedded runs ingress and drainer over an embedded store in this process, as "penstock up" does.
//
// It promises that one process at a time has the store, that closing releases everything in reverse order, and that
// targets never reach its own listeners.
package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/deferred"
	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/natsserver"
	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/cli/operator"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue"
)

// Options are the settings of a Server.
type Options struct {
	Data        string // directory of the store
	Listen      ops.Listen
	Health      ops.Listen        // separate listener for health and metrics; none without an address
	Limits      ops.ServerOptions // of the HTTP server
	Config      string            // file of rules and queues; may be empty
	Concurrency int               // 0 is the default of drain
	Egress      *egress.Guard     // nil allows public addresses only
	EgressAllow []string          // the addresses that Egress allows, for the API to show
	Secrets     secrets.Source
	Publish     app.PublishFlags
	Auth        *app.AuthFlags // nil disables authentication silently, for servers that only this process uses
	Console     app.ConsoleFlags
	Traces      app.TraceFlags
	Logs        app.LogFlags
	Memory      int64         // limit of this process; 0 is no limit
	KeepChanges time.Duration // 0 keeps the setting of the store
	Patience    time.Duration // time to wait for the store before deferring jobs; 0 is the default of deferred
	Log         *slog.Logger
	// Ephemeral keeps jobs only in memory, for tests; Data then has the token and the overflow. With Virtual, the API
	// can advance the clock.
	Ephemeral, Virtual bool

	advance func(context.Context, time.Duration) (time.Time, error)
}

// Server is an ingress and a drainer over an embedded engine, with an overflow of their own.
type Server struct {
	Engine    queue.Engine
	TokenFile string // file of the operator's token; empty without authentication

	base    *app.Base // shared, so that the ingress serves the metrics of both
	drainer *app.Drainer
	calls   *deliver.Router // to the receivers of calls through the proxy; the ingress closes it
	ingress *app.Ingress
}

// overflowDir holds the overflow, beside the file of the store. The lock of that file protects it too.
const overflowDir = "overflow"

// Open opens the store and the listener. Nothing runs before Run.
func Open(ctx context.Context, o Options) (_ *Server, err error) {
	if o.Egress == nil {
		o.Egress = new(egress.Guard)
	}
	o.Listen.Bound, o.Health.Bound = o.Egress.Protect, o.Egress.Protect
	b, err := app.Open(ctx, app.BaseOptions{
		Service: "penstock", Config: o.Config, Traces: o.Traces, Decisions: o.Logs.DecisionFlags,
		ValidTarget: app.ValidTarget(o.Egress, o.Secrets), OpenStore: o.openStore, OpenOverflow: o.openOverflow,
		Logger: o.Log,
	})
	if err != nil {
		return nil, err
	}
	s := &Server{base: b, Engine: b.Engine}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	authority, err := s.authority(ctx, &o)
	if err != nil {
		return nil, err
	}
	if err := s.openDrainer(&o); err != nil {
		return nil, err
	}
	return s, s.openIngress(&o, authority)
}

func (o *Options) openStore(ctx context.Context, _ prometheus.Registerer) (queue.Engine, error) {
	options := store.Options{DataPath: o.Data, KeepChanges: o.KeepChanges, Memory: o.Memory, Logger: o.Log}
	if !o.Ephemeral {
		return store.Open(ctx, options)
	}
	e, err := store.OpenMemory(ctx, options)
	if err != nil {
		return nil, err
	}
	if o.Virtual {
		o.advance = e.Advance
	}
	return e, nil
}

// openOverflow starts a NATS server that only this process can reach.
func (o *Options) openOverflow(ctx context.Context, b *app.Base) (*deferred.Stream, error) {
	stream, err := o.startOverflow(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("--data %s: open the overflow: %w", o.Data, err)
	}
	return stream, nil
}

func (o *Options) startOverflow(ctx context.Context, b *app.Base) (*deferred.Stream, error) {
	free, err := FreeBytes(o.Data)
	if err != nil {
		return nil, err
	}
	server, err := natsserver.Start(ctx, natsserver.Options{Dir: filepath.Join(o.Data, overflowDir), Logger: o.Log})
	if err != nil {
		return nil, err
	}
	b.Add("nats server", func() error { server.Stop(); return nil })
	conn, err := server.Connect()
	if err != nil {
		return nil, err
	}
	b.Add("connection to nats", func() error { conn.Close(); return nil })
	stream, err := app.NewOverflow(
		conn, deferred.Options{MaxBytes: overflowBytes(free), Patience: o.Patience, Logger: o.Log}, b.Registry, 0,
	)
	if err != nil {
		return nil, err
	}
	return stream, stream.Open(ctx)
}

// authority sets up authentication and creates the operator's token. It is nil without authentication.
func (s *Server) authority(ctx context.Context, o *Options) (*auth.Authority, error) {
	if o.Auth == nil {
		return nil, nil
	}
	a, err := o.Auth.Authority(s.Engine, o.Log)
	if a == nil || err != nil {
		return nil, err
	}
	if s.TokenFile, err = filepath.Abs(filepath.Join(o.Data, operator.TokenFile)); err != nil {
		return nil, fmt.Errorf("--data %s: %w", o.Data, err)
	}
	return a, operator.EnsureToken(ctx, a, s.TokenFile, o.Log)
}

func (s *Server) openDrainer(o *Options) error {
	b := s.base
	router, owners, err := b.OpenRouter(deliver.Options{
		Concurrency: drain.MaxHandlers(cmp.Or(o.Concurrency, drain.DefaultConcurrency)), Secrets: o.Secrets, Egress: o.Egress,
		Logger: o.Log,
	}, &o.Publish)
	if err != nil {
		return err
	}
	s.calls = app.CallRouter(deliver.Options{Secrets: o.Secrets, Egress: o.Egress, Logger: o.Log}, owners)
	s.drainer, err = app.NewDrainer(b.Engine, app.DrainerOptions{
		Handler: router, Owners: owners, Overflow: b.Overflow, Registry: b.Registry, Tracer: b.Tracer,
		Decisions: b.Decisions, Drain: drain.Options{Concurrency: o.Concurrency, Version: ops.Version}, Logger: o.Log,
	})
	return err
}

func (s *Server) openIngress(o *Options, authority *auth.Authority) (err error) {
	b := s.base
	s.ingress, err = app.NewIngress(b.Engine, app.IngressOptions{
		Router: s.calls,
		Listen: o.Listen, Health: o.Health, Server: o.Limits, Overflow: b.Overflow,
		ValidateTarget: app.ValidTarget(o.Egress, o.Secrets), Registry: b.Registry, Tracer: b.Tracer, Logger: o.Log,
		Auth: authority, NoAuth: o.Auth != nil && o.Auth.NoAuth, Console: o.Console,
		API: api.Options{
			Hanging: s.drainer.Hanging, DrainerPace: s.drainer.Pace, RequestLog: o.Logs.Access(o.Log),
			Decisions: b.Decisions, EgressAllow: o.EgressAllow, Clock: o.advance,
		},
	})
	return err
}

// URL returns the URL of the listener.
func (s *Server) URL() string { return s.ingress.URL() }

// Run serves and drains until ctx ends, and closes the store.
func (s *Server) Run(ctx context.Context) error {
	return s.base.Run(ctx, func(ctx context.Context) error { return ops.RunAll(ctx, s.ingress.Run, s.drainer.Run) })
}

// Start runs a Server until stop is called. stop waits for its end and returns its error.
func Start(ctx context.Context, o Options) (url string, stop func() error, err error) {
	s, err := Open(ctx, o)
	if err != nil {
		return "", nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- s.Run(running) }()
	return s.URL(), func() error {
		cancel()
		if err := <-done; err != nil {
			return fmt.Errorf("stop ingress and drainer: %w", err)
		}
		return nil
	}, nil
}
