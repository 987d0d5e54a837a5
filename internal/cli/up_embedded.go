package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue"
)

// embeddedOptions say how ingress and drainer run in one process.
type embeddedOptions struct {
	data        string // directory of the store
	listen      ops.Listen
	health      ops.Listen        // of its own for health and metrics; none without an address
	server      ops.ServerOptions // its limits
	config      string            // file of rules and queues; may be empty
	concurrency int               // 0 is drain's default
	egress      *egress.Guard     // nil is to public addresses alone
	egressAllow []string          // what that was made of, to be told
	secrets     secrets.Source
	publish     app.PublishFlags
	auth        *app.AuthFlags // nil asks nobody, and says so nowhere: only this process asks
	console     app.ConsoleFlags
	traces      app.TraceFlags
	logs        app.LogFlags
	memory      int64         // of this process; 0 bounds nothing
	keepChanges time.Duration // 0 leaves it as the store has it
	patience    time.Duration // with the store, before jobs go to the overflow; 0 is deferred's default
	log         *slog.Logger
}

// embedded is ingress and drainer over an embedded engine, with an overflow of its
// own.
type embedded struct {
	engine   queue.Engine
	overflow *deferred.Stream
	ingress  *app.Ingress
	drainer  *app.Drainer
	token    string         // where the operator's token is; empty if nobody is asked
	closers  []func() error // last in, first out
}

// natsDir is where the overflow lies, beside the store's file. Who has that file's
// lock has this too.
const natsDir = "overflow"

// openEmbedded opens the store and the listener; nothing runs before run.
func openEmbedded(ctx context.Context, o embeddedOptions) (_ *embedded, err error) {
	var file config.File
	if o.config != "" {
		// The file is read first, so that a mistake in it touches nothing.
		if file, err = config.Load(o.config, app.ValidTarget(o.egress, o.secrets)); err != nil {
			return nil, usage(err)
		}
	}
	if o.egress == nil {
		o.egress = new(egress.Guard)
	}
	o.listen.Bound, o.health.Bound = o.egress.Protect, o.egress.Protect
	e := &embedded{}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.close())
		}
	}()
	// Both show their metrics on the ingress's page.
	registry := app.NewRegistry()
	tracer, err := o.traces.Tracer("penstock", registry, o.log)
	if err != nil {
		return nil, err
	}
	decisions := o.logs.Decisions(o.log)
	e.closers = append(e.closers, tracer.Close, func() error { decisions.Close(); return nil })
	if e.engine, err = store.Open(ctx, store.Options{
		DataPath: o.data, KeepChanges: o.keepChanges, Memory: o.memory, Logger: o.log,
	}); err != nil {
		return nil, err
	}
	e.closers = append(e.closers, e.engine.Close)
	if err = e.openOverflow(ctx, o, registry); err != nil {
		return nil, fmt.Errorf("--data %s: the overflow: %w", o.data, err)
	}
	if _, err = config.Apply(ctx, e.engine, file, o.log); err != nil {
		return nil, err
	}
	authority, err := e.authority(ctx, o)
	if err != nil {
		return nil, err
	}
	targets := deliver.Options{
		Concurrency: drain.MaxHandlers(cmp.Or(o.concurrency, drain.DefaultConcurrency)), Secrets: o.secrets, Egress: o.egress,
		Logger: o.log,
	}
	owners := auth.NewOwners(e.engine, o.log)
	targets.Permitted = app.Permitted(owners)
	disconnect, err := o.publish.Connect(&targets, owners, o.log)
	if err != nil {
		return nil, err
	}
	e.closers = append(e.closers, func() error { disconnect(); return nil })
	router := deliver.New(targets)
	e.closers = append(e.closers, router.Close)
	e.drainer, err = app.NewDrainer(e.engine, app.DrainerOptions{
		Handler: router, Owners: owners, Overflow: e.overflow, Registry: registry, Tracer: tracer, Decisions: decisions,
		Drain: drain.Options{Concurrency: o.concurrency, Version: ops.Version}, Logger: o.log,
	})
	if err != nil {
		return nil, err
	}
	e.ingress, err = app.NewIngress(e.engine, app.IngressOptions{
		Listen: o.listen, Health: o.health, Server: o.server, Overflow: e.overflow,
		ValidateTarget: app.ValidTarget(o.egress, o.secrets), Registry: registry, Tracer: tracer,
		Logger: o.log,
		Auth:   authority, NoAuth: o.auth != nil && o.auth.NoAuth,
		Console: o.console,
		API: api.Options{
			Hanging: e.drainer.Hanging, DrainerPace: e.drainer.Pace, RequestLog: o.logs.Access(o.log), Decisions: decisions,
			EgressAllow: o.egressAllow,
		},
	})
	return e, err
}

// authority says who asks, and makes the operator's token; nil if nobody is asked.
func (e *embedded) authority(ctx context.Context, o embeddedOptions) (*auth.Authority, error) {
	if o.auth == nil {
		return nil, nil
	}
	a, err := o.auth.Authority(e.engine, o.log)
	if a == nil || err != nil {
		return nil, err
	}
	path, err := filepath.Abs(filepath.Join(o.data, tokenFile))
	if err != nil {
		return nil, fmt.Errorf("--data %s: %w", o.data, err)
	}
	e.token = path
	return a, ownToken(ctx, a, path, o.log)
}

// openOverflow starts a NATS server that only this process can reach.
func (e *embedded) openOverflow(ctx context.Context, o embeddedOptions, reg prometheus.Registerer) error {
	free, err := freeBytes(o.data)
	if err != nil {
		return err
	}
	server, err := natsserver.Start(ctx, natsserver.Options{Dir: filepath.Join(o.data, natsDir), Logger: o.log})
	if err != nil {
		return err
	}
	e.closers = append(e.closers, func() error { server.Stop(); return nil })
	conn, err := server.Connect()
	if err != nil {
		return err
	}
	e.closers = append(e.closers, func() error { conn.Close(); return nil })
	if e.overflow, err = app.NewOverflow(
		conn, deferred.Options{MaxBytes: overflowBytes(free), Patience: o.patience, Logger: o.log}, reg, 0,
	); err != nil {
		return err
	}
	return e.overflow.Open(ctx)
}

func (e *embedded) url() string { return e.ingress.URL() }

// run serves and drains until ctx ends, and closes the store.
func (e *embedded) run(ctx context.Context) error {
	both := func(ctx context.Context) error { return ops.RunAll(ctx, e.ingress.Run, e.drainer.Run) }
	err := ops.RunOver(ctx, both, e.overflow.Run)
	return errors.Join(err, e.close())
}

func (e *embedded) close() error {
	var errs []error
	for _, c := range slices.Backward(e.closers) {
		errs = append(errs, c())
	}
	e.closers = nil
	return errors.Join(errs...)
}

// startEmbedded runs one until stop is called. stop waits, and returns how it ended.
func startEmbedded(ctx context.Context, o embeddedOptions) (url string, stop func() error, err error) {
	e, err := openEmbedded(ctx, o)
	if err != nil {
		return "", nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- e.run(running) }()
	return e.url(), func() error {
		cancel()
		if err := <-done; err != nil {
			return fmt.Errorf("stop ingress and drainer: %w", err)
		}
		return nil
	}, nil
}

// logger writes what processes have to say, for people.
func logger(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

// tethered returns a context that ends when r does: a process that was started
// by another, with r its standard input, does not outlive it.
func tethered(ctx context.Context, r io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() { // it is not waited for: nothing but the other end's can end the reading
		_, _ = io.Copy(io.Discard, r)
		cancel()
	}()
	return ctx, cancel
}
