package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/version"
	"github.com/penstock/penstock/queue"
)

// embeddedOptions say how ingress and drainer run in one process.
type embeddedOptions struct {
	data        string // directory of the store
	listen      ops.Listen
	config      string // file of queues; may be empty
	concurrency int    // 0 is drain's default
	log         *slog.Logger
}

// embedded is ingress and drainer over an embedded engine.
type embedded struct {
	engine  queue.Engine
	router  *deliver.Router
	ingress *app.Ingress
	drainer *app.Drainer
}

// openEmbedded opens the store and the listener; nothing runs before run.
func openEmbedded(ctx context.Context, o embeddedOptions) (_ *embedded, err error) {
	var specs []queue.Spec
	if o.config != "" {
		// The file is read first, so that a mistake in it touches nothing.
		if specs, err = config.Load(o.config, app.ValidTarget); err != nil {
			return nil, usage(err)
		}
	}
	e := &embedded{router: deliver.New(deliver.Options{Concurrency: o.concurrency, Logger: o.log})}
	if e.engine, err = store.Open(ctx, store.Options{DataPath: o.data, Logger: o.log}); err != nil {
		return nil, errors.Join(err, e.router.Close())
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.router.Close(), e.engine.Close())
		}
	}()
	if _, err = config.Apply(ctx, e.engine, specs, o.log); err != nil {
		return nil, err
	}
	// Both show their metrics on the ingress's page.
	registry := app.NewRegistry()
	e.drainer, err = app.NewDrainer(e.engine, app.DrainerOptions{
		Handler: e.router, Registry: registry, Logger: o.log,
		Drain: drain.Options{Concurrency: o.concurrency, Version: version.Version},
	})
	if err != nil {
		return nil, err
	}
	e.ingress, err = app.NewIngress(e.engine, app.IngressOptions{
		Listen: o.listen, ValidateTarget: app.ValidTarget, Registry: registry, Logger: o.log,
	})
	return e, err
}

func (e *embedded) url() string { return e.ingress.URL() }

// run serves and drains until ctx ends, and closes the store.
func (e *embedded) run(ctx context.Context) error {
	err := ops.RunAll(ctx, e.ingress.Run, e.drainer.Run)
	return errors.Join(err, e.router.Close(), e.engine.Close())
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
