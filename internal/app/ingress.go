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
	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/app/tracing"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/metrics"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
)

// IngressOptions are the settings of an Ingress. Zero fields mean what is said
// beside them.
type IngressOptions struct {
	Listen ops.Listen
	// Health is a listener of its own for health and metrics, with which the API's has no /metrics. Without an address
	// there is none.
	Health ops.Listen
	// DrainDelay is how long requests are served on when it is to end, while /readyz is 503 already: whoever sends
	// requests here has so long to notice. Ctrl-C in a terminal skips it.
	DrainDelay time.Duration
	// Server are the limits of its HTTP server.
	Server ops.ServerOptions
	// Auth says who sends requests, and is run by the Ingress. Nil: nobody is asked.
	Auth *auth.Authority
	// NoAuth says so at the start, if nobody is asked though others than this process send requests.
	NoAuth bool
	// Console is whether there is a web console, and what is before every path. The zero one is none.
	Console ConsoleFlags
	// API are further settings of the API; Rules, Metrics, Stopping and Logger are set here.
	API api.Options
	// Overflow is where jobs go that may wait, which somebody else runs for as long as the
	// Ingress. Nil: those that ask for it are refused.
	Overflow *deferred.Stream
	// Patience is how long the engine may take to decide before a rule's policy does; 0 is admission's default.
	Patience time.Duration
	// ValidateTarget checks the deliver part of a queue's spec. Nil takes any.
	ValidateTarget func(queue string, target json.RawMessage) error
	// Tracer follows what is appended; nil follows nothing. Whoever opened it closes it.
	Tracer *tracing.Tracer
	// Registry gets its metrics and is what /metrics shows. Nil is one of its own.
	Registry *prometheus.Registry
	// MaxQueueLabels is how many queues have series of their own; 0 is metrics.DefaultMaxQueues.
	MaxQueueLabels int
	Logger         *slog.Logger // discards
}

// Ingress is the front door.
type Ingress struct {
	engine    queue.Engine // see newEngine
	admission *admission.Admission
	overflow  *deferred.Appender // nil without an overflow
	gauges    *metrics.Gauges
	survey    *survey.Survey
	pull      *pull.Dispatcher
	turns     *pull.QueueTurns
	pace      *pace
	server    *ops.Server
	health    *ops.Server // nil without an address
	api       atomic.Pointer[api.API]
	o         IngressOptions
}

// NewIngress binds the listener. What it returns must be run.
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
	if err := metrics.RegisterTLS(o.Registry, i.server.Certificates()); err != nil {
		return nil, err
	}
	if err := metrics.RegisterMemory(o.Registry, o.Server.Memory); err != nil {
		return nil, err
	}
	if err := metrics.RegisterAuth(o.Registry, o.Auth); err != nil {
		return nil, err
	}
	if i.engine, err = i.newEngine(store); err != nil {
		return nil, err
	}
	if i.gauges, err = metrics.NewGauges(o.Registry, o.MaxQueueLabels); err != nil {
		return nil, err
	}
	i.survey = survey.New(i.engine, survey.Options{Logger: o.Logger})
	if err := metrics.RegisterSurvey(o.Registry, i.survey); err != nil {
		return nil, err
	}
	observer, err := metrics.NewPull(o.Registry, o.MaxQueueLabels)
	if err != nil {
		return nil, err
	}
	i.pull = pull.New(i.engine, pull.Options{
		Version: ops.Version, Observer: pullPace{observer, i.pace}, Logger: o.Logger,
		MaxHeldMemory: o.Server.Memory.Limit() / 8, Held: i.holdPulled, Handed: o.Tracer.Pull(),
	})
	i.turns = pull.NewQueueTurns(i.engine, i.pull)
	return i, nil
}

// holdPulled charges for jobs that were granted to those who pull, as they are and as they are in the answer. They are
// nobody's until they are handed over, and there already.
func (i *Ingress) holdPulled(bytes int64) { i.o.Server.Memory.Nobody().Add(2 * bytes) }

// noteGuarded is told what the Guard refused, which stands before there is an API.
func (i *Ingress) noteGuarded(r *http.Request, p *httpio.Problem) {
	if a := i.api.Load(); a != nil {
		a.NoteGuarded(r, p)
	}
}

// Addr is where it listens.
func (i *Ingress) Addr() net.Addr { return i.server.Addr() }

// URL is where a client on this machine finds it.
func (i *Ingress) URL() string { return i.server.URL() }

// Run serves until ctx ends and for the drain delay after that, and then lets requests under way finish.
func (i *Ingress) Run(ctx context.Context) error {
	draining := ctx
	ctx, stop := ops.Linger(ctx, i.o.DrainDelay)
	defer stop()
	if i.o.DrainDelay > 0 {
		defer context.AfterFunc(draining, func() {
			if errors.Is(context.Cause(draining), errCtrlC) { // a person waits, and no load balancer has to notice
				stop()
				return
			}
			i.o.Logger.Info("ingress drains: it is not ready, and serves on", "for", i.o.DrainDelay)
		})()
	}
	o := i.o.API
	o.ValidateTarget, o.Logger = i.o.ValidateTarget, i.o.Logger
	o.Auth, o.Prefix = i.o.Auth, i.o.Console.PathPrefix
	o.Metrics, o.OwnMetrics, o.Stopping = metricsPage(i.o.Registry), i.ownMetrics(), i.server.Stopping()
	o.Memory, o.Pull, o.Pace, o.Rule = i.o.Server.Memory, i.pull, i.pace.check, i.admission.Rule
	o.Turns, o.Waits, o.Survey = i.turns, i.admission, i.survey
	if i.overflow != nil {
		o.Overflow, o.OverflowState = true, i.o.Overflow
	}
	if i.o.DrainDelay > 0 {
		o.Draining = draining
	}
	page := o.Metrics
	if i.health != nil {
		o.Metrics = nil
	}
	full := api.New(i.engine, o)
	i.api.Store(full)
	defer full.Close()
	front := i.o.Console.consoleOver(full, o.RequestLog)
	serve := func(ctx context.Context) error {
		defer i.turns.Close() // nobody waits any more
		return ops.RunAll(ctx,
			func(ctx context.Context) error { return i.server.Run(ctx, i.o.Tracer.Serve(front)) },
			i.pull.Run,
			i.survey.Run,
			func(ctx context.Context) error { return i.gauges.Run(ctx, i.engine, i.survey, 0, i.o.Logger) },
		)
	}
	i.o.Logger.Info("ingress listens", "url", i.URL())
	if i.o.NoAuth {
		i.o.Logger.Warn("nobody is asked who he is: whoever reaches the API may do everything (--no-auth)")
	}
	if i.health != nil {
		i.o.Logger.Info("ingress serves health and metrics", "health_url", i.health.URL())
		inner, beside := serve, api.Beside(full, page)
		serve = func(ctx context.Context) error { // which is served until the API has ended
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
	// requests that are let finish still need it
	return ops.RunOver(ctx, serve, func(ctx context.Context) error { return ops.RunAll(ctx, under...) })
}

// HealthURL is where a client on this machine finds health and metrics.
func (i *Ingress) HealthURL() string {
	if i.health == nil {
		return i.URL()
	}
	return i.health.URL()
}

// Close frees the listeners of an ingress that is not run.
func (i *Ingress) Close() error {
	if i.health == nil {
		return i.server.Close()
	}
	return errors.Join(i.server.Close(), i.health.Close())
}
