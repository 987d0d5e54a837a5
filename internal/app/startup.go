package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/deferred"
	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/internal/app/tracing"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue"
)

// Cleanup is a stack of opened resources. The zero Cleanup is empty.
type Cleanup struct{ opened []resource }

type resource struct {
	name  string
	close func() error
}

// Add pushes a resource.
func (c *Cleanup) Add(name string, close func() error) {
	c.opened = append(c.opened, resource{name, close})
}

// Close closes all resources, last in, first out, and returns their errors. Closing again does nothing.
func (c *Cleanup) Close() error {
	var errs []error
	for _, r := range slices.Backward(c.opened) {
		if err := r.close(); err != nil {
			errs = append(errs, fmt.Errorf("close the %s: %w", r.name, err))
		}
	}
	c.opened = nil
	return errors.Join(errs...)
}

// BaseOptions are the settings of Open.
type BaseOptions struct {
	Service   string // name of the process in traces
	Config    string // YAML file of rules and queues; may be empty
	Traces    TraceFlags
	Decisions DecisionFlags
	// ValidTarget checks the deliver part of a queue's spec in the config file.
	ValidTarget func(queue string, target json.RawMessage) error
	// OpenStore opens the store.
	OpenStore func(ctx context.Context, reg prometheus.Registerer) (queue.Engine, error)
	// OpenOverflow opens the overflow, and adds what must be closed to the Base. It returns nil for no overflow.
	OpenOverflow func(ctx context.Context, b *Base) (*deferred.Stream, error)
	Logger       *slog.Logger
}

// Base is what ingress and drainer both stand on.
type Base struct {
	Cleanup
	Registry  *prometheus.Registry
	Tracer    *tracing.Tracer
	Decisions *ops.Decisions
	Engine    queue.Engine
	Overflow  *deferred.Stream // nil without an overflow
}

// Open starts a process: it opens traces, decision log, store and overflow, in this order, and then creates the missing
// rules and queues of the config file. The file is read first, so neither a mistake in it nor an overflow that does not
// open changes anything in the store. The caller closes the Base; after an error everything is closed.
func Open(ctx context.Context, o BaseOptions) (_ *Base, err error) {
	var file config.File
	if o.Config != "" {
		if file, err = config.Load(o.Config, o.ValidTarget); err != nil {
			return nil, ops.Misuse(fmt.Errorf("--config: %w", err))
		}
	}
	b := &Base{Registry: NewRegistry()}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	if b.Tracer, err = o.Traces.open(o.Service, b.Registry, o.Logger); err != nil {
		return nil, err
	}
	b.Add("traces", b.Tracer.Close)
	b.Decisions = o.Decisions.open(o.Logger)
	b.Add("decision log", func() error { b.Decisions.Close(); return nil })
	if b.Engine, err = o.OpenStore(ctx, b.Registry); err != nil {
		return nil, err
	}
	b.Add("store", b.Engine.Close)
	if b.Overflow, err = o.OpenOverflow(ctx, b); err != nil {
		return nil, err
	}
	if _, err = config.Apply(ctx, b.Engine, file, o.Logger); err != nil {
		return nil, fmt.Errorf("--config %s: %w", o.Config, err)
	}
	return b, nil
}

// callsToHost is the maximum number of connections to one host for calls through the proxy. Calls last longer than
// deliveries.
const callsToHost = 1024

// CallRouter returns the router to the receivers of calls through the proxy.
func CallRouter(o deliver.Options, owners *auth.Owners) *deliver.Router {
	o.Concurrency, o.Permitted = callsToHost, Permitted(owners)
	return deliver.New(o)
}

// OpenRouter returns the router to all targets, and the owners of queues, which a Drainer runs.
func (b *Base) OpenRouter(o deliver.Options, publish *PublishFlags) (*deliver.Router, *auth.Owners, error) {
	owners := auth.NewOwners(b.Engine, o.Logger)
	o.Permitted = Permitted(owners)
	disconnect, err := publish.Connect(&o, owners)
	if err != nil {
		return nil, nil, err
	}
	b.Add("publisher", disconnect)
	router := deliver.New(o)
	b.Add("router", router.Close)
	return router, owners, nil
}

// Run runs a process over the overflow, and closes the Base.
func (b *Base) Run(ctx context.Context, process func(context.Context) error) (err error) {
	defer func() { err = errors.Join(err, b.Close()) }()
	if b.Overflow == nil {
		return process(ctx)
	}
	return ops.RunOver(ctx, process, b.Overflow.Run)
}
