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
	"slices"
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
	"github.com/penstock/penstock/internal/app/tracing"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/operator"
	"github.com/penstock/penstock/internal/config"
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
}

// Server is an ingress and a drainer over an embedded engine, with an overflow of their own.
type Server struct {
	Engine    queue.Engine
	TokenFile string // file of the operator's token; empty without authentication

	options   Options
	registry  *prometheus.Registry // of both: the ingress serves it
	tracer    *tracing.Tracer
	decisions *ops.Decisions
	owners    *auth.Owners
	authority *auth.Authority
	overflow  *deferred.Stream
	drainer   *app.Drainer
	ingress   *app.Ingress
	closers   []func() error // called in reverse order
}

// overflowDir holds the overflow, beside the file of the store. The lock of that file protects it too.
const overflowDir = "overflow"

// Open opens the store and the listener. Nothing runs before Run.
func Open(ctx context.Context, o Options) (_ *Server, err error) {
	var file config.File
	if o.Config != "" { // read first: an invalid file changes nothing
		if file, err = config.Load(o.Config, app.ValidTarget(o.Egress, o.Secrets)); err != nil {
			return nil, command.Usage(err)
		}
	}
	if o.Egress == nil {
		o.Egress = new(egress.Guard)
	}
	o.Listen.Bound, o.Health.Bound = o.Egress.Protect, o.Egress.Protect
	s := &Server{options: o, registry: app.NewRegistry()}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	for _, step := range []func(context.Context) error{
		s.openTelemetry,
		s.openStore,
		s.openOverflow,
		func(ctx context.Context) error {
			_, err := config.Apply(ctx, s.Engine, file, o.Log)
			return err
		},
		s.openAuthority,
		s.openDrainer,
		s.openIngress,
	} {
		if err = step(ctx); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// onClose adds a function to call on closing, before the functions that were added earlier.
func (s *Server) onClose(end func()) {
	s.closers = append(s.closers, func() error { end(); return nil })
}

func (s *Server) openTelemetry(context.Context) (err error) {
	if s.tracer, err = s.options.Traces.Tracer("penstock", s.registry, s.options.Log); err != nil {
		return err
	}
	s.closers = append(s.closers, s.tracer.Close)
	s.decisions = s.options.Logs.Decisions(s.options.Log)
	s.onClose(s.decisions.Close)
	return nil
}

func (s *Server) openStore(ctx context.Context) (err error) {
	s.Engine, err = store.Open(ctx, store.Options{
		DataPath: s.options.Data, KeepChanges: s.options.KeepChanges, Memory: s.options.Memory, Logger: s.options.Log,
	})
	if err != nil {
		return err
	}
	s.closers = append(s.closers, s.Engine.Close)
	s.owners = auth.NewOwners(s.Engine, s.options.Log)
	return nil
}

// openOverflow starts a NATS server that only this process can reach.
func (s *Server) openOverflow(ctx context.Context) error {
	if err := s.startOverflow(ctx); err != nil {
		return fmt.Errorf("--data %s: open the overflow: %w", s.options.Data, err)
	}
	return nil
}

func (s *Server) startOverflow(ctx context.Context) error {
	free, err := FreeBytes(s.options.Data)
	if err != nil {
		return err
	}
	server, err := natsserver.Start(ctx, natsserver.Options{
		Dir: filepath.Join(s.options.Data, overflowDir), Logger: s.options.Log,
	})
	if err != nil {
		return err
	}
	s.onClose(server.Stop)
	conn, err := server.Connect()
	if err != nil {
		return err
	}
	s.onClose(conn.Close)
	s.overflow, err = app.NewOverflow(conn, deferred.Options{
		MaxBytes: overflowBytes(free), Patience: s.options.Patience, Logger: s.options.Log,
	}, s.registry, 0)
	if err != nil {
		return err
	}
	return s.overflow.Open(ctx)
}

// openAuthority sets up authentication and creates the operator's token.
func (s *Server) openAuthority(ctx context.Context) (err error) {
	if s.options.Auth == nil {
		return nil
	}
	s.authority, err = s.options.Auth.Authority(s.Engine, s.options.Log)
	if s.authority == nil || err != nil {
		return err
	}
	if s.TokenFile, err = filepath.Abs(filepath.Join(s.options.Data, operator.TokenFile)); err != nil {
		return fmt.Errorf("--data %s: %w", s.options.Data, err)
	}
	return operator.EnsureToken(ctx, s.authority, s.TokenFile, s.options.Log)
}

func (s *Server) openDrainer(context.Context) error {
	o := &s.options
	targets := deliver.Options{
		Concurrency: drain.MaxHandlers(cmp.Or(o.Concurrency, drain.DefaultConcurrency)), Secrets: o.Secrets, Egress: o.Egress,
		Permitted: app.Permitted(s.owners), Logger: o.Log,
	}
	disconnect, err := o.Publish.Connect(&targets, s.owners, o.Log)
	if err != nil {
		return err
	}
	s.onClose(disconnect)
	router := deliver.New(targets)
	s.closers = append(s.closers, router.Close)
	s.drainer, err = app.NewDrainer(s.Engine, app.DrainerOptions{
		Handler: router, Owners: s.owners, Overflow: s.overflow, Registry: s.registry, Tracer: s.tracer,
		Decisions: s.decisions, Drain: drain.Options{Concurrency: o.Concurrency, Version: ops.Version}, Logger: o.Log,
	})
	return err
}

func (s *Server) openIngress(context.Context) (err error) {
	o := &s.options
	s.ingress, err = app.NewIngress(s.Engine, app.IngressOptions{
		Listen: o.Listen, Health: o.Health, Server: o.Limits, Overflow: s.overflow,
		ValidateTarget: app.ValidTarget(o.Egress, o.Secrets), Registry: s.registry, Tracer: s.tracer, Logger: o.Log,
		Auth: s.authority, NoAuth: o.Auth != nil && o.Auth.NoAuth, Console: o.Console,
		API: api.Options{
			Hanging: s.drainer.Hanging, DrainerPace: s.drainer.Pace, Access: o.Logs.Access(o.Log), Decisions: s.decisions,
			EgressAllow: o.EgressAllow,
		},
	})
	return err
}

// URL returns the URL of the listener.
func (s *Server) URL() string { return s.ingress.URL() }

// Run serves and drains until ctx ends, and closes the store.
func (s *Server) Run(ctx context.Context) error {
	both := func(ctx context.Context) error { return ops.RunAll(ctx, s.ingress.Run, s.drainer.Run) }
	err := ops.RunOver(ctx, both, s.overflow.Run)
	return errors.Join(err, s.close())
}

func (s *Server) close() error {
	var errs []error
	for _, end := range slices.Backward(s.closers) {
		errs = append(errs, end())
	}
	s.closers = nil
	return errors.Join(errs...)
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
