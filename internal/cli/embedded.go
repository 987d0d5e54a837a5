package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/api"
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
	o      embeddedOptions
	engine queue.Engine
	server *ops.Server
}

func validTarget(raw json.RawMessage) error {
	_, err := deliver.Parse(raw)
	return err
}

// openEmbedded opens the store and the listener; nothing runs before run.
func openEmbedded(ctx context.Context, o embeddedOptions) (_ *embedded, err error) {
	var specs []queue.Spec
	if o.config != "" {
		if specs, err = config.Load(o.config, validTarget); err != nil {
			return nil, usage(err)
		}
	}
	e := &embedded{o: o}
	if e.engine, err = store.Open(ctx, store.Options{DataPath: o.data, Logger: o.log}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.engine.Close())
		}
	}()
	if _, err = config.Apply(ctx, e.engine, specs, o.log); err != nil {
		return nil, err
	}
	e.server, err = ops.NewServer(o.listen, ops.ServerOptions{Logger: o.log})
	return e, err
}

func (e *embedded) url() string { return e.server.URL() }

// run serves and drains until ctx ends, and closes the store.
func (e *embedded) run(ctx context.Context) error {
	face := api.New(e.engine, api.Options{ValidateTarget: validTarget, Stopping: e.server.Stopping(), Logger: e.o.log})
	router := deliver.New(deliver.Options{Concurrency: e.o.concurrency, Logger: e.o.log})
	err := ops.RunAll(ctx,
		func(ctx context.Context) error { return e.server.Run(ctx, face) },
		func(ctx context.Context) error {
			return drain.Run(ctx, e.engine, router, drain.Options{Concurrency: e.o.concurrency, Version: version.Version, Logger: e.o.log})
		},
	)
	return errors.Join(err, router.Close(), e.engine.Close())
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
