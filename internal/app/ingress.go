package app

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/admission"
	"github.com/penstock/penstock/deferred"
	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/app/tracing"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/metrics"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/proxy"
	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
)

// IngressOptions are the settings of an Ingress. Zero fields mean the defaults named here.
type IngressOptions struct {
	Listen ops.Listen
	// Health is a separate listener for health and metrics; the API then has no /metrics. Empty means none.
	Health ops.Listen
	// DrainDelay is how long a stopping ingress goes on serving while /readyz already answers 503, so that load balancers
	// stop sending requests. Ctrl-C in a terminal skips it.
	DrainDelay time.Duration
	// Server has the limits of the HTTP server.
	Server ops.ServerOptions
	// Auth authenticates requests. The Ingress runs it. Nil disables authentication.
	Auth *auth.Authority
	// NoAuth has the ingress log at the start that authentication is disabled.
	NoAuth bool
	// Console has the settings of the web console and the path prefix; the zero value means neither.
	Console ConsoleFlags
	// API has further settings of the API. Run sets Rule, Metrics, Stopping, Logger and others from the fields here.
	API api.Options
	// Overflow takes jobs that may be deferred. The caller runs it for as long as the Ingress. Nil refuses such jobs when
	// there is no room.
	Overflow *deferred.Stream
	// Patience is how long the engine may take to decide before a rule's away does; 0 means admission's default.
	Patience time.Duration
	// ValidateTarget checks the deliver part of a queue's spec. Nil accepts any.
	ValidateTarget func(queue string, target json.RawMessage) error
	// Router reaches the receivers of calls through the proxy. The Ingress closes it. Nil: no proxy.
	Router *deliver.Router
	// Owners knows the apps of queues for the Router, and is run by the Ingress. Nil if it is run elsewhere.
	Owners *auth.Owners
	// Tracer traces appends; nil traces none. The caller closes it.
	Tracer *tracing.Tracer
	// Registry receives the metrics, and /metrics shows it. Nil means a new one.
	Registry *prometheus.Registry
	// MaxQueueLabels is the number of queues with metrics of their own; 0 means metrics.DefaultMaxQueues.
	MaxQueueLabels int
	Logger         *slog.Logger // by default discards
}

// Ingress serves the API over a store.
type Ingress struct {
	engine    queue.Engine // made by newEngine
	admission *admission.Admission
	overflow  *deferred.Appender // nil without an overflow
	gauges    *metrics.Gauges
	survey    *survey.Survey
	pull      *pull.Dispatcher
	turns     *pull.QueueTurns
	proxy     *proxy.Proxy // nil without a router
	pace      *pace
	server    *ops.Server
	health    *ops.Server // nil without an address
	api       atomic.Pointer[api.API]
	o         IngressOptions
}

// NewIngress binds the listeners. The caller calls Run or Close.
func NewIngress(store queue.Engine, o IngressOptions) (_ *Ingress, err error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Registry == nil {
		o.Registry = NewRegistry()
	}
	if o.Server.Logger == nil {
		o.Server.Logger = o.Logger
	}
	if o.Server.Memory == nil {
		o.Server.Memory = ops.NewBudget(ops.DefaultMemory)
	}
	o.Server.Refuse = httpio.RefuseBudget
	if o.Auth != nil {
		o.Server.ConnContext = auth.WithPeer
	}
	i := &Ingress{o: o, pace: newPace(time.Now)}
	if i.server, err = newServer(o.Listen, o.Server, o.Console, i.noteGuarded); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, i.Close())
		}
	}()
	if o.Health.Addr != "" {
		o.Health.Flag = healthFlag
		if i.health, err = newServer(o.Health, healthServer(o.Server), ConsoleFlags{}, nil); err != nil {
			return nil, err
		}
	}
	if i.engine, err = i.newEngine(store); err != nil {
		return nil, err
	}
	i.survey = survey.New(i.engine, survey.Options{
		Keeper: i.engine, Version: ops.Version, Logger: o.Logger,
	})
	observer, err := i.register()
	if err != nil {
		return nil, err
	}
	i.pull = pull.New(i.engine, pull.Options{
		Version: ops.Version, Observer: pullPace{observer, i.pace}, Logger: o.Logger,
		MaxHeldMemory: o.Server.Memory.Limit() / 8, Held: i.chargePulled, Handed: o.Tracer.Pull(), Waited: o.Tracer.Waits(),
		MaxWaiting: maxWaiting, MaxQueue: maxWaiting / 2,
	})
	i.turns = pull.NewQueueTurns(i.engine, i.pull)
	if o.Router != nil {
		calls, err := metrics.NewProxy(o.Registry, o.MaxQueueLabels)
		if err != nil {
			return nil, err
		}
		i.proxy = proxy.New(i.engine, proxy.Options{
			Turns: i.turns, Router: o.Router, Observer: calls, Logger: o.Logger,
		})
	}
	return i, nil
}

// maxWaiting is the maximum number of workers, and of calls, that wait for a job or a turn. The API limits workers to
// less.
const maxWaiting = 24_000

// register registers the metrics of everything but the engine.
func (i *Ingress) register() (*metrics.Pull, error) {
	var err error
	if i.gauges, err = metrics.NewGauges(i.o.Registry, i.o.MaxQueueLabels); err != nil {
		return nil, err
	}
	if err = errors.Join(
		metrics.RegisterTLS(i.o.Registry, i.server.Certificates()),
		metrics.RegisterMemory(i.o.Registry, i.o.Server.Memory),
		metrics.RegisterAuth(i.o.Registry, i.o.Auth),
		metrics.RegisterSurvey(i.o.Registry, i.survey),
	); err != nil {
		return nil, err
	}
	return metrics.NewPull(i.o.Registry, i.o.MaxQueueLabels)
}

// chargePulled charges the memory of jobs granted to pull queues: of the job, and of its copy in the answer. No client
// owns them until they are handed over.
func (i *Ingress) chargePulled(bytes int64) { i.o.Server.Memory.Nobody().Add(2 * bytes) }

// noteGuarded passes a refusal of the guard to the API. There is no API before Run.
func (i *Ingress) noteGuarded(r *http.Request, p *httpio.Problem) {
	if a := i.api.Load(); a != nil {
		a.NoteGuarded(r, p)
	}
}

// Addr returns the address of the listener.
func (i *Ingress) Addr() net.Addr { return i.server.Addr() }

// URL returns the URL of the API for clients on this machine.
func (i *Ingress) URL() string { return i.server.URL() }

// Run serves until ctx ends and the drain delay has passed, and then lets open requests finish.
func (i *Ingress) Run(ctx context.Context) (err error) {
	draining := ctx
	ctx, stop := ops.Linger(ctx, i.o.DrainDelay)
	defer stop()
	if i.o.DrainDelay > 0 {
		defer context.AfterFunc(draining, func() {
			if errors.Is(context.Cause(draining), errCtrlC) { // a person waits, and no load balancer needs to notice
				stop()
				return
			}
			i.o.Logger.Info("ingress drains: not ready, but still serving", "for", i.o.DrainDelay)
		})()
	}
	o := i.apiOptions(draining)
	page := o.Metrics
	if i.health != nil {
		o.Metrics = nil
	}
	full := api.New(i.engine, o)
	i.api.Store(full)
	defer full.Close()
	if i.proxy != nil {
		defer func() { err = errors.Join(err, i.proxy.Close()) }()
	}
	serve := func(ctx context.Context) error {
		defer i.turns.Close() // after the last request has ended
		return ops.RunAll(ctx,
			func(ctx context.Context) error { return i.server.Run(ctx, i.front(full)) },
			i.pull.Run,
			i.survey.Run,
			func(ctx context.Context) error { return i.gauges.Run(ctx, i.engine, i.survey, 0, i.o.Logger) },
		)
	}
	i.o.Logger.Info("ingress listens", "url", i.URL())
	if i.o.NoAuth {
		i.o.Logger.Warn("authentication is disabled (--no-auth): anyone who can reach the API has full access")
	}
	if i.health != nil {
		i.o.Logger.Info("ingress serves health and metrics", "health_url", i.health.URL())
		inner, beside := serve, api.Beside(full, page)
		serve = func(ctx context.Context) error { // health is served until the API has ended
			return ops.RunOver(ctx, inner, func(ctx context.Context) error { return i.health.Run(ctx, beside) })
		}
	}
	defer i.o.Logger.Info("ingress stopped")
	under := []func(context.Context) error{i.admission.Run}
	if i.overflow != nil {
		under = append(under, i.overflow.Run)
	}
	if i.o.Auth != nil {
		under = append(under, i.o.Auth.Run)
	}
	if i.o.Owners != nil {
		under = append(under, i.o.Owners.Run)
	}
	// Requests that are finishing still need these.
	return ops.RunOver(ctx, serve, func(ctx context.Context) error { return ops.RunAll(ctx, under...) })
}

// apiOptions returns the settings of the API. draining ends when the ingress starts to drain.
func (i *Ingress) apiOptions(draining context.Context) api.Options {
	o := i.o.API
	o.ValidateTarget, o.Logger = i.o.ValidateTarget, i.o.Logger
	o.Auth, o.Prefix = i.o.Auth, i.o.Console.PathPrefix
	o.Metrics, o.OwnMetrics, o.Stopping = metricsPage(i.o.Registry), i.ownMetrics(), i.server.Stopping()
	o.Memory, o.Pull, o.Pace, o.Rule = i.o.Server.Memory, i.pull, i.pace.check, i.admission.Rule
	o.Turns, o.Waits, o.Survey, o.Proxy = i.turns, i.admission, i.survey, i.proxy
	if i.overflow != nil {
		o.Overflow, o.OverflowState = true, i.o.Overflow
	}
	if i.o.DrainDelay > 0 {
		o.Draining = draining
	}
	return o
}

// HealthURL returns the URL of health and metrics for clients on this machine.
func (i *Ingress) HealthURL() string {
	if i.health == nil {
		return i.URL()
	}
	return i.health.URL()
}

// Close closes the listeners of an Ingress that is not run.
func (i *Ingress) Close() error {
	if i.health == nil {
		return i.server.Close()
	}
	return errors.Join(i.server.Close(), i.health.Close())
}
