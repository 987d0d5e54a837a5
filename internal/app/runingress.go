package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/alecthomas/kong"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue"
)

const ingressAbout = "The front door of Penstock: takes jobs over HTTP into bounded queues. When there is no room it " +
	"answers with the time to come back. Every flag can also be set by the environment variable shown beside it."

// ingressFlags are the flags of cmd/ingress.
type ingressFlags struct {
	storeFlags
	NATSFlags
	AuthFlags
	LogFlags
	MemoryFlags
	HealthFlags
	ConsoleFlags
	DrainDelay     time.Duration `default:"5s" placeholder:"DURATION"`
	Grace          time.Duration `default:"10s" placeholder:"DURATION"`
	KeepChanges    time.Duration `placeholder:"DURATION"`
	MaxConnections int           `default:"8192" placeholder:"N"`
}

// LongHelp implements longHelper.
func (ingressFlags) LongHelp() map[string]string {
	return map[string]string{
		"drain-delay": "How long to go on serving after SIGTERM, while /readyz already answers 503, so that load balancers " +
			"stop sending requests here (default ${default}). Then --grace begins. Ctrl-C in a terminal skips it.",
		"grace": "Time for requests to finish after SIGTERM (default ${default}); 0 cuts them off at once.",
		"keep-changes": "How long to keep the record of changes to queues and rules, at least 1h; 9600h unless it was " +
			"changed. The setting is kept in the store.",
		"max-connections": "Maximum number of open connections, at least 1; more connections wait (default ${default}).",
	}
}

// Validate is called by the parser.
func (f *ingressFlags) Validate() error {
	return errors.Join(f.storeFlags.Validate(), f.NATSFlags.Validate(), f.MemoryFlags.Validate(), f.AuthFlags.Validate(),
		f.ConsoleFlags.Validate(),
		atLeastOne("--max-connections", f.MaxConnections), notNegative("--grace", f.Grace),
		notNegative("--drain-delay", f.DrainDelay), ValidKeepChanges(f.KeepChanges))
}

// ValidKeepChanges checks the flag --keep-changes.
func ValidKeepChanges(d time.Duration) error {
	if queue.ValidateKeepChanges(d) != nil {
		return fmt.Errorf("--keep-changes %v: must be from %v to %v", d, queue.MinKeepChanges, queue.MaxKeepChanges)
	}
	return nil
}

func ingressVars() kong.Vars {
	return kong.Vars{
		"listen": "127.0.0.1:8080", "listenhelp": "Address of the API",
	}
}

// RunIngress is the ingress as a program: it parses args and runs until ctx ends. The error is ErrHelp if args only ask
// for help or the version.
func RunIngress(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var f ingressFlags
	if err := parse(&f, "ingress", ingressAbout, args, stdout, stderr, ingressVars()); err != nil {
		return err
	}
	log := f.logger(stderr)
	guard, source, valid, err := f.targets()
	if err != nil {
		return err
	}
	listen := f.listenOn(guard)
	if err := f.Allowed(listen); err != nil {
		return err
	}
	server := ops.ServerOptions{Grace: graceOption(f.Grace), MaxConnections: f.MaxConnections}
	if err := f.Bound(&server); err != nil {
		return err
	}
	b, err := Open(ctx, BaseOptions{
		Service: "penstock-ingress", Config: f.Config, Traces: f.TraceFlags, Decisions: f.DecisionFlags, ValidTarget: valid,
		OpenStore: f.storeOpener(f.KeepChanges, log), OpenOverflow: f.overflowOpener("penstock ingress", f.QueueLabels, log),
		Logger: log,
	})
	if err != nil {
		return err
	}
	authority, err := f.Authority(b.Engine, log)
	if err != nil {
		return errors.Join(err, b.Close())
	}
	collectBefore(server.Memory.Limit() + besideBudget)
	owners := auth.NewOwners(b.Engine, log)
	i, err := NewIngress(b.Engine, IngressOptions{
		Router: CallRouter(deliver.Options{Logger: log, Secrets: source, Egress: guard}, owners), Owners: owners,
		API:      api.Options{RequestLog: f.Access(log), Decisions: b.Decisions, EgressAllow: f.EgressAllow},
		Overflow: b.Overflow, Auth: authority, NoAuth: f.NoAuth,
		Listen: listen, Health: f.Beside(listen), DrainDelay: f.DrainDelay, Server: server,
		Console:        f.ConsoleFlags,
		ValidateTarget: valid, Tracer: b.Tracer, Registry: b.Registry, MaxQueueLabels: f.QueueLabels,
		Logger: log,
	})
	if err != nil {
		return errors.Join(err, b.Close())
	}
	return b.Run(ctx, i.Run)
}
