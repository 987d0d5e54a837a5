package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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
	base    *app.Base
	engine  queue.Engine
	ingress *app.Ingress
	drainer *app.Drainer
	token   string // file of the operator's token; empty without authentication
}

// natsDir is where the overflow lies, beside the store's file. Who has that file's
// lock has this too.
const natsDir = "overflow"

// openEmbedded opens the store and the listener; nothing runs before run.
func openEmbedded(ctx context.Context, o embeddedOptions) (_ *embedded, err error) {
	if o.egress == nil {
		o.egress = new(egress.Guard)
	}
	o.listen.Bound, o.health.Bound = o.egress.Protect, o.egress.Protect
	valid := app.ValidTarget(o.egress, o.secrets)
	// Ingress and drainer share a Base, so the ingress's page shows the metrics of both.
	b, err := app.Open(ctx, app.BaseOptions{
		Service: "penstock", Config: o.config, Traces: o.traces, Decisions: o.logs.DecisionFlags, ValidTarget: valid,
		OpenStore: o.openStore, OpenOverflow: o.openOverflow, Logger: o.log,
	})
	if err != nil {
		return nil, err
	}
	e := &embedded{base: b, engine: b.Engine}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	authority, err := e.authority(ctx, o)
	if err != nil {
		return nil, err
	}
	router, owners, err := b.OpenRouter(deliver.Options{
		Concurrency: drain.MaxHandlers(cmp.Or(o.concurrency, drain.DefaultConcurrency)), Secrets: o.secrets, Egress: o.egress,
		Logger: o.log,
	}, &o.publish)
	if err != nil {
		return nil, err
	}
	e.drainer, err = app.NewDrainer(b.Engine, app.DrainerOptions{
		Handler: router, Owners: owners, Overflow: b.Overflow, Registry: b.Registry, Tracer: b.Tracer,
		Decisions: b.Decisions, Drain: drain.Options{Concurrency: o.concurrency, Version: ops.Version}, Logger: o.log,
	})
	if err != nil {
		return nil, err
	}
	e.ingress, err = app.NewIngress(b.Engine, app.IngressOptions{
		Listen: o.listen, Health: o.health, Server: o.server, Overflow: b.Overflow,
		ValidateTarget: valid, Registry: b.Registry, Tracer: b.Tracer, Logger: o.log,
		Auth: authority, NoAuth: o.auth != nil && o.auth.NoAuth,
		Console: o.console,
		API: api.Options{
			Hanging: e.drainer.Hanging, DrainerPace: e.drainer.Pace, Access: o.logs.Access(o.log), Decisions: b.Decisions,
			EgressAllow: o.egressAllow,
		},
	})
	return e, err
}

func (o *embeddedOptions) openStore(ctx context.Context, _ prometheus.Registerer) (queue.Engine, error) {
	return store.Open(ctx, store.Options{
		DataPath: o.data, KeepChanges: o.keepChanges, Memory: o.memory, Logger: o.log,
	})
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
func (o *embeddedOptions) openOverflow(ctx context.Context, b *app.Base) (_ *deferred.Stream, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("--data %s: the overflow: %w", o.data, err)
		}
	}()
	free, err := freeBytes(o.data)
	if err != nil {
		return nil, err
	}
	server, err := natsserver.Start(ctx, natsserver.Options{Dir: filepath.Join(o.data, natsDir), Logger: o.log})
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
		conn, deferred.Options{MaxBytes: overflowBytes(free), Patience: o.patience, Logger: o.log}, b.Registry, 0,
	)
	if err != nil {
		return nil, err
	}
	return stream, stream.Open(ctx)
}

func (e *embedded) url() string { return e.ingress.URL() }

// run serves and drains until ctx ends, and closes the store.
func (e *embedded) run(ctx context.Context) error {
	return e.base.Run(ctx, func(ctx context.Context) error { return ops.RunAll(ctx, e.ingress.Run, e.drainer.Run) })
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
