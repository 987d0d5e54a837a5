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
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/ops"
)

const drainerAbout = "The outflow of Penstock: takes jobs out of all queues of a store and delivers them, each queue " +
	"at its rate together with all other drainers. Every flag can be given as the environment variable that stands " +
	"beside it."

// drainerFlags are cmd/drainer's.
type drainerFlags struct {
	storeFlags
	NATSFlags
	PublishFlags
	DecisionFlags
	Concurrency int           `default:"${concurrency}" placeholder:"N"`
	Grace       time.Duration `default:"30s" placeholder:"DURATION"`
	Name        string        `placeholder:"NAME"`
}

// LongHelp is the help that is too long for the tags.
func (drainerFlags) LongHelp() map[string]string {
	return map[string]string{
		"concurrency": "How many jobs of one queue may be under way, or waiting for their departure, at once (default " +
			"${default}); of all together twice as many, so that no queue stops another.",
		"grace": "How long jobs that have left may go on after SIGTERM (default ${default}); 0 cancels them at " +
			"once. Those that have not are given back at once.",
		"name": "What this drainer is called in lists of drainers (default HOST:PID).",
	}
}

// Validate is called by the parser.
func (f *drainerFlags) Validate() error {
	return errors.Join(f.storeFlags.Validate(), f.NATSFlags.Validate(), f.PublishFlags.Validate(),
		atLeastOne("--concurrency", f.Concurrency), notNegative("--grace", f.Grace))
}

// healthGrace is how long a question about health or metrics may go on after the last
// job, unless the jobs were given less.
const healthGrace = 10 * time.Second

func drainerVars() kong.Vars {
	return kong.Vars{
		"listen": "127.0.0.1:8081", "listenhelp": "Where health and metrics are served",
		"concurrency": fmt.Sprint(drain.DefaultConcurrency),
	}
}

// RunDrainer is the drainer as a program; see RunIngress. With a nil OpenAsynq it delivers to no asynq.
func RunDrainer(open OpenAsynq) Program {
	return func(ctx context.Context, args []string, stdout, stderr io.Writer) error {
		return runDrainer(ctx, open, args, stdout, stderr)
	}
}

func runDrainer(ctx context.Context, open OpenAsynq, args []string, stdout, stderr io.Writer) (err error) {
	f := drainerFlags{PublishFlags: PublishFlags{OpenAsynq: open}}
	if err := parse(&f, "drainer", drainerAbout, args, stdout, stderr, drainerVars()); err != nil {
		return err
	}
	log, reg := f.logger(stderr), NewRegistry()
	guard, source, valid, err := f.targets()
	if err != nil {
		return err
	}
	tracer, err := f.Tracer("penstock-drainer", reg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tracer.Close()) }()
	decisions := f.Decisions(log)
	defer decisions.Close()
	engine, err := f.open(ctx, valid, reg, 0, log)
	if err != nil {
		return err
	}
	overflow, err := f.newOverflow(ctx, "penstock drainer", engine, reg, f.QueueLabels, log)
	if err != nil {
		return errors.Join(err, engine.Close())
	}
	defer overflow.close()
	grace := graceOption(f.Grace)
	collectBefore(2*int64(f.Concurrency)*perHandler + besideBudget)
	targets := deliver.Options{
		Concurrency: drain.MaxHandlers(f.Concurrency), Secrets: source, Egress: guard,
		Logger: log,
	}
	owners := auth.NewOwners(engine, log)
	targets.Permitted = Permitted(owners)
	disconnect, err := f.Connect(&targets, owners, log)
	if err != nil {
		return errors.Join(err, engine.Close())
	}
	defer disconnect()
	router := deliver.New(targets)
	d, err := NewDrainer(engine, DrainerOptions{
		Handler: router, Owners: owners, Overflow: overflow.Stream,
		Drain:  drain.Options{Concurrency: f.Concurrency, Grace: grace, Name: f.Name, Version: ops.Version, Logger: log},
		Listen: f.listenOn(guard), Server: ops.ServerOptions{Grace: min(grace, healthGrace)}, Registry: reg,
		Tracer: tracer, Decisions: decisions, MaxQueueLabels: f.QueueLabels, Logger: log,
	})
	if err == nil {
		err = overflow.under(ctx, d.Run)
	}
	return errors.Join(err, router.Close(), engine.Close())
}
