package app

import (
	"context"
	"net/http"
	"slices"

	"github.com/penstock/penstock/admission"
	"github.com/penstock/penstock/deferred"
	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/metrics"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// This file builds the chains of layers. Read each list from top to bottom, in the order in which a request, a call to
// the store or a departing job passes it.

// newServer opens a listener. All listeners of a process are opened here, of the API and of health and metrics, so all
// have the guard and refuse requests in the same way. A request passes these layers:
//
//	ops.Listen          TLS
//	ops.Server          limits connections and time, charges memory to the client or refuses it (httpio.RefuseBudget)
//	withoutPrefix       removes the path prefix of a reverse proxy
//	httpio.Guard           refuses what a web page may have sent
//	front               the API with its console, or api.Beside: health and metrics alone
func newServer(
	l ops.Listen, o ops.ServerOptions, c ConsoleFlags, refused func(*http.Request, *httpio.Problem),
) (*ops.Server, error) {
	if err := validHosts(l.Hosts); err != nil {
		return nil, err
	}
	o.Guard = func(h http.Handler) http.Handler {
		return withoutPrefix(c.PathPrefix, httpio.Guard(h, httpio.GuardOptions{
			Names: l.Names(), Forms: c.forms(), Refused: refused,
		}))
	}
	o.Own = httpio.ServerProblem
	return ops.NewServer(l, o)
}

// front returns the handler of the API's listener. A request passes these layers:
//
//	tracing.Serve       reads the trace context of the request
//	console.Before      serves pages for people, which call the API in their name
//	api.New             finds the operation, names the request and its sender; changes are logged and recorded
//	newEngine
func (i *Ingress) front(full http.Handler) http.Handler {
	return i.o.Tracer.Serve(i.o.Console.before(full, i.o.API.RequestLog))
}

// layer puts one concern in front of an engine.
type layer func(next queue.Engine) (queue.Engine, error)

// newEngine returns the store as the API sees it: behind these layers, the first one outermost.
func (i *Ingress) newEngine(store queue.Engine) (_ queue.Engine, err error) {
	counted, err := metrics.NewRules(i.o.Registry, i.o.MaxQueueLabels)
	if err != nil {
		return nil, err
	}
	layers := []layer{
		// Every append gets a span if it is traced, and its jobs carry the trace.
		func(next queue.Engine) (queue.Engine, error) { return i.o.Tracer.Engine(next), nil },
		// Appends are counted and timed, and replays are counted.
		func(next queue.Engine) (queue.Engine, error) {
			return metrics.NewEngine(next, i.o.Registry, i.o.MaxQueueLabels)
		},
		// An append: the queue's target refuses jobs that it could never deliver, and sets their cost.
		appends(func(next queue.Engine) queue.Appender { return deliver.NewIntake(next, next) }),
		// An append: rules of other groups than the queue's are asked.
		appends(func(next queue.Engine) queue.Appender { return admission.NewAppender(i.admission, next) }),
		// An append with an overflow: jobs that find no room, and may wait, are deferred.
		appends(func(next queue.Engine) queue.Appender {
			if i.o.Overflow == nil {
				return next
			}
			i.overflow = deferred.New(next, i.o.Overflow, i.admission.Pass)
			return i.overflow
		}),
		// A take: the rule's away decides while the store does not answer.
		func(next queue.Engine) (queue.Engine, error) {
			i.admission = admission.New(next, admission.Options{
				Observer: counted, Logger: i.o.Logger, Patience: i.o.Patience,
			})
			return takingEngine{next, i.admission}, nil
		},
		// Decisions of rules are counted, also the decisions within an append.
		func(next queue.Engine) (queue.Engine, error) { return counted.Over(next), nil },
	}
	for _, over := range slices.Backward(layers) { // each layer may use the ones below
		if store, err = over(store); err != nil {
			return nil, err
		}
	}
	return store, nil
}

// appends returns a layer for appends alone.
func appends(over func(next queue.Engine) queue.Appender) layer {
	return func(next queue.Engine) (queue.Engine, error) { return appendingEngine{next, over(next)}, nil }
}

// appendingEngine is an Engine with another Appender.
type appendingEngine struct {
	queue.Engine
	appender queue.Appender
}

func (e appendingEngine) Append(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	return e.appender.Append(ctx, jobs)
}

// takingEngine is an Engine with another Taker.
type takingEngine struct {
	queue.Engine
	taker queue.Taker
}

func (e takingEngine) Take(ctx context.Context, rule string, takes []rules.Take) ([]rules.Taken, error) {
	return e.taker.Take(ctx, rule, takes)
}

// outflow takes jobs out of the store until ctx ends. A job passes these layers:
//
//	drain.Run           reserves the job, starts it at its departure and settles it; drainPace and metrics.Observer get
//	                    the events, and tracing.Drain traces it
//	deliver.Router      finds the target of its queue; other Handlers do as they like
//	a target            prepares, waits in the gate, and sends
//	egress.Guard        permits the connection
//
// Beside it, with an overflow, deferred.Readmitter brings jobs back as room becomes available.
func (d *Drainer) outflow(ctx context.Context) error {
	drains := func(ctx context.Context) error {
		return ops.RunOver(ctx, func(ctx context.Context) error {
			d.owners.Wait(ctx)
			return drain.Run(ctx, d.engine, d.o.Handler, d.o.Drain)
		}, d.owners.Run)
	}
	if d.o.Overflow == nil {
		return drains(ctx)
	}
	return ops.RunAll(ctx, drains, deferred.NewReadmitter(d.engine, d.o.Overflow).Run)
}
