package app

import (
	"context"
	"net/http"

	"github.com/penstock/penstock/admission"
	"github.com/penstock/penstock/deferred"
	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/internal/metrics"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
)

// This file puts together what stands before one another: each list is read top down, as a request, a call to the store
// and a departing job go.

// newServer opens a listener. All of a process are opened here, the API's and those of health and metrics: none is
// without the guard, and all tell refusals in one way. A request goes down this list:
//
//	ops.Listen          TLS
//	ops.Server          bounds connections and time, and charges memory to the client, or refuses it (httpio.RefuseBudget)
//	withoutPrefix       takes off the path what a proxy in front has before it
//	httpio.Guard        refuses what a web page may have sent
//	api.Beside          of a listener for health and metrics alone: nothing else is served
//	tracing.Serve       reads whose trace a request is part of
//	console.Before      pages for people, which ask the API in their name
//	api.New             finds the operation, names the request and asks who sends it; changes are logged and recorded
//	newEngine
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

// roles is an engine of which each role is played by whatever stands before the store for it.
type roles struct {
	queue.Appender
	queue.Outflow
	queue.Specs
	queue.Watch
	queue.ChangeLog
	queue.Jobs
	queue.Overflow
	queue.Rules
	queue.Taker
	document.Documents
	audit.Log
	queue.Store
}

// newEngine is the store as the API sees it. A call goes down this list:
//
//	tracing.Engine           makes a span of an append, if it is to be traced, and has its jobs carry it
//	metrics.Engine           counts and times what is appended, and counts what is replayed
//	  deliver.Intake         of an append: the queue's target refuses what it could never deliver, and sets the cost
//	  admission.Appender     of an append: the rules of other groups than the queue's are asked
//	  deferred.Appender      of an append, with an overflow: the store is asked to offer, and what finds no room waits
//	  admission.Admission    of a take: the rule's away decides while the store does not answer
//	metrics.Rules            counts what rules say, also within an append
//	the store
func (i *Ingress) newEngine(store queue.Engine) (queue.Engine, error) {
	rules, err := metrics.NewRules(i.o.Registry, i.o.MaxQueueLabels)
	if err != nil {
		return nil, err
	}
	store = rules.Over(store)
	i.admission = admission.New(store, admission.Options{Observer: rules, Logger: i.o.Logger, Patience: i.o.Patience})
	var last queue.Appender = store
	if i.o.Overflow != nil {
		i.overflow = deferred.New(store, i.o.Overflow, i.admission.Pass)
		last = i.overflow
	}
	counted, err := metrics.NewEngine(roles{
		Appender: deliver.NewIntake(admission.NewAppender(i.admission, last), store),
		Outflow:  store, Specs: store, Watch: store, ChangeLog: store, Jobs: store, Overflow: store, Rules: store,
		Store: store, Documents: store, Log: store,
		Taker: i.admission,
	}, i.o.Registry, i.o.MaxQueueLabels)
	return i.o.Tracer.Engine(counted), err
}

// outflow takes jobs out of the store until its context ends. A job goes down this list:
//
//	drain.Run           reserves it, starts it at its departure and settles it; drainPace and metrics.Observer are told,
//	                    and tracing.Drain follows what is traced
//	deliver.Router      finds the target of its queue; another Handler does what it likes
//	a target            prepares, waits in the gate of the attempt, and sends
//	egress.Guard        lets the connection out
//
// Beside it, with an overflow, deferred.Readmitter brings back jobs as room comes.
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
