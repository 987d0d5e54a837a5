package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/alecthomas/kong"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue"
)

const ingressAbout = "The front door of Penstock: takes jobs over HTTP into bounded queues, and turns them away with " +
	"the truth about when to come back. Every flag can be given as the environment variable that stands beside it."

// ingressFlags are cmd/ingress's.
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

// LongHelp is the help that is too long for the tags.
func (ingressFlags) LongHelp() map[string]string {
	return map[string]string{
		"drain-delay": "How long requests are served on after SIGTERM, while /readyz is 503 already, so that nobody sends " +
			"them here any more (default ${default}); 0 is not at all. Ctrl-C in a terminal skips it. Then --grace begins.",
		"grace": "How long requests may go on after SIGTERM (default ${default}); 0 cuts them off at once.",
		"keep-changes": "How long the record of changes to queues and rules is kept, such as 9600h, the default; at least " +
			"1h. The store keeps it, for all who use it.",
		"max-connections": "The most connections at once, at least 1; more wait (default ${default}).",
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
		"listen": "127.0.0.1:8080", "listenhelp": "Where the API is served",
	}
}

// RunIngress is the ingress as a program: it reads flags, runs until ctx ends and
// returns what went wrong, ErrHelp when it only had to tell about itself.
func RunIngress(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	var f ingressFlags
	if err := parse(&f, "ingress", ingressAbout, args, stdout, stderr, ingressVars()); err != nil {
		return err
	}
	log, reg := f.logger(stderr), NewRegistry()
	guard, _, valid, err := f.targets()
	if err == nil {
		err = f.Allowed(f.listenOn(guard))
	}
	if err != nil {
		return err
	}
	tracer, err := f.Tracer("penstock-ingress", reg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tracer.Close()) }()
	decisions := f.Decisions(log)
	defer decisions.Close()
	engine, err := f.open(ctx, valid, reg, f.KeepChanges, log)
	if err != nil {
		return err
	}
	authority, err := f.Authority(engine, log)
	if err != nil {
		return errors.Join(err, engine.Close())
	}
	overflow, err := f.newOverflow(ctx, "penstock ingress", engine, reg, f.QueueLabels, log)
	if err != nil {
		return errors.Join(err, engine.Close())
	}
	defer overflow.close()
	server := ops.ServerOptions{Grace: graceOption(f.Grace), MaxConnections: f.MaxConnections}
	if err := f.Bound(&server); err != nil {
		return errors.Join(err, engine.Close())
	}
	collectBefore(server.Memory.Limit() + besideBudget)
	i, err := NewIngress(engine, IngressOptions{
		API:      api.Options{RequestLog: f.Access(log), Decisions: decisions, EgressAllow: f.EgressAllow},
		Overflow: overflow.Stream, Auth: authority, NoAuth: f.NoAuth,
		Listen: f.listenOn(guard), Health: f.Beside(f.listenOn(guard)), DrainDelay: f.DrainDelay, Server: server,
		Console:        f.ConsoleFlags,
		ValidateTarget: valid, Tracer: tracer, Registry: reg, MaxQueueLabels: f.QueueLabels,
		Logger: log,
	})
	if err == nil {
		err = overflow.under(ctx, i.Run)
	}
	return errors.Join(err, engine.Close())
}
