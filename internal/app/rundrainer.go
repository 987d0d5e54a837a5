package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/alecthomas/kong"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/ops"
)

const drainerAbout = "The outflow of Penstock: takes jobs out of all queues of a store and delivers them, each queue " +
	"at its rate, shared with all other drainers. Every flag can also be set by the environment variable shown beside it."

// drainerFlags are the flags of cmd/drainer.
type drainerFlags struct {
	storeFlags
	NATSFlags
	PublishFlags
	DecisionFlags
	Concurrency int           `default:"${concurrency}" placeholder:"N"`
	Grace       time.Duration `default:"30s" placeholder:"DURATION"`
	Name        string        `placeholder:"NAME"`
}

// LongHelp implements longHelper.
func (drainerFlags) LongHelp() map[string]string {
	return map[string]string{
		"concurrency": "Maximum number of jobs of one queue in progress, or waiting for their departure (default " +
			"${default}). All queues together may have twice as many, so that no queue stops another.",
		"grace": "Time for started jobs to finish after SIGTERM (default ${default}); 0 cancels them at once. Jobs that " +
			"have not started are given back at once.",
		"name": "Name of this drainer in lists of drainers (default HOST:PID).",
	}
}

// Validate is called by the parser.
func (f *drainerFlags) Validate() error {
	return errors.Join(f.storeFlags.Validate(), f.NATSFlags.Validate(), f.PublishFlags.Validate(),
		atLeastOne("--concurrency", f.Concurrency), notNegative("--grace", f.Grace))
}

// healthGrace limits how long a request for health or metrics may go on after the last job.
const healthGrace = 10 * time.Second

func drainerVars() kong.Vars {
	return kong.Vars{
		"listen": "127.0.0.1:8081", "listenhelp": "Address of health and metrics",
		"concurrency": fmt.Sprint(drain.DefaultConcurrency),
	}
}

// RunDrainer returns the drainer as a program; see RunIngress. If open is nil it has no asynq targets.
func RunDrainer(open OpenAsynq) Program {
	return func(ctx context.Context, args []string, stdout, stderr io.Writer) error {
		return runDrainer(ctx, open, args, stdout, stderr)
	}
}

func runDrainer(ctx context.Context, open OpenAsynq, args []string, stdout, stderr io.Writer) error {
	f := drainerFlags{PublishFlags: PublishFlags{OpenAsynq: open}}
	if err := parse(&f, "drainer", drainerAbout, args, stdout, stderr, drainerVars()); err != nil {
		return err
	}
	log := f.logger(stderr)
	guard, source, valid, err := f.targets()
	if err != nil {
		return err
	}
	b, err := Open(ctx, BaseOptions{
		Service: "penstock-drainer", Config: f.Config, Traces: f.TraceFlags, Decisions: f.DecisionFlags, ValidTarget: valid,
		OpenStore: f.storeOpener(0, log), OpenOverflow: f.overflowOpener("penstock drainer", f.QueueLabels, log),
		Logger: log,
	})
	if err != nil {
		return err
	}
	collectBefore(2*int64(f.Concurrency)*perHandler + besideBudget)
	router, owners, err := b.OpenRouter(deliver.Options{
		Concurrency: drain.MaxHandlers(f.Concurrency), Secrets: source, Egress: guard, Logger: log,
	}, &f.PublishFlags)
	if err != nil {
		return errors.Join(err, b.Close())
	}
	grace := graceOption(f.Grace)
	d, err := NewDrainer(b.Engine, DrainerOptions{
		Handler: router, Owners: owners, Overflow: b.Overflow,
		Drain:  drain.Options{Concurrency: f.Concurrency, Grace: grace, Name: f.Name, Version: ops.Version, Logger: log},
		Listen: f.listenOn(guard), Server: ops.ServerOptions{Grace: min(grace, healthGrace)}, Registry: b.Registry,
		Tracer: b.Tracer, Decisions: b.Decisions, MaxQueueLabels: f.QueueLabels, Logger: log,
	})
	if err != nil {
		return errors.Join(err, b.Close())
	}
	return b.Run(ctx, d.Run)
}
