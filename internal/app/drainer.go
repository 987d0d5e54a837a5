package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/deferred"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/app/tracing"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/metrics"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue"
)

// DrainerOptions are the settings of a Drainer. Zero fields mean what is said
// beside them.
type DrainerOptions struct {
	// Handler gets the jobs. It must be given.
	Handler drain.Handler
	// Drain are the drainer's own settings; Observer, Tracer and AppOf are set here, and Usage if it is not given.
	Drain drain.Options
	// Owners knows whose queues are, and is run by the Drainer; nil is one of its own.
	Owners *auth.Owners
	// Overflow is where jobs come back from, which somebody else runs for as long as the
	// Drainer. Nil: none do.
	Overflow *deferred.Stream
	// Listen is where metrics and health are served; without an address nowhere.
	Listen ops.Listen
	Server ops.ServerOptions
	// Tracer follows what is delivered; nil follows nothing. Whoever opened it closes it.
	Tracer *tracing.Tracer
	// Decisions is told of queues that stop; nil: nobody is. Whoever made it closes it.
	Decisions *ops.Decisions
	// Registry gets its metrics and is what /metrics shows. Nil is one of its own.
	Registry *prometheus.Registry
	// MaxQueueLabels is how many queues have series of their own; 0 is metrics.DefaultMaxQueues.
	MaxQueueLabels int
	Logger         *slog.Logger // discards
}

var errStopping = errors.New("this drainer is stopping")

// Drainer is the outflow, with health and metrics beside it.
type Drainer struct {
	engine queue.Engine
	server *ops.Server // nil without an address
	pace   *pace
	owners *auth.Owners
	o      DrainerOptions
}

// NewDrainer binds the listener of health and metrics. What it returns must be run.
func NewDrainer(engine queue.Engine, o DrainerOptions) (*Drainer, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Registry == nil {
		o.Registry = NewRegistry()
	}
	if o.Drain.Logger == nil {
		o.Drain.Logger = o.Logger
	}
	if o.Server.Logger == nil {
		o.Server.Logger = o.Logger
	}
	if o.Owners == nil {
		o.Owners = auth.NewOwners(engine, o.Logger)
	}
	observer, err := metrics.NewObserver(o.Registry, o.MaxQueueLabels)
	if err != nil {
		return nil, err
	}
	kept := newPace(time.Now)
	o.Drain.Observer, o.Drain.Tracer = drainPace{drainDecisions{observer, o.Decisions}, kept}, o.Tracer.Drain()
	if o.Drain.Usage == nil {
		o.Drain.Usage = &drain.Usage{}
	}
	if err := metrics.NewHandlers(o.Registry, o.Drain.Usage, o.MaxQueueLabels); err != nil {
		return nil, err
	}
	d := &Drainer{engine: engine, o: o, pace: kept, owners: o.Owners}
	d.o.Drain.AppOf = d.owners.Share
	if o.Listen.Addr != "" {
		if d.server, err = newServer(o.Listen, o.Server, ConsoleFlags{}, nil); err != nil {
			return nil, err
		}
		if err := metrics.RegisterTLS(o.Registry, d.server.Certificates()); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	return d, nil
}

// Addr is where health and metrics are served, nil when nowhere.
func (d *Drainer) Addr() net.Addr {
	if d.server == nil {
		return nil
	}
	return d.server.Addr()
}

// Run drains until ctx ends, then gives back what has not left and finishes what
// has. Health and metrics are served until that is done.
func (d *Drainer) Run(ctx context.Context) error {
	if d.server == nil {
		return d.outflow(ctx)
	}
	d.o.Logger.Info("drainer serves health and metrics", "url", d.server.URL())
	defer d.o.Logger.Info("drainer stopped")
	ready := func(check context.Context) (lacks, err error) {
		if ctx.Err() != nil {
			return nil, errStopping
		}
		if err := d.engine.Check(check); err != nil {
			return nil, err
		}
		released, err := d.Pace()
		return errors.Join(d.lacks(), d.Hanging(), released), err
	}
	return ops.RunOver(ctx, d.outflow, func(lasting context.Context) error {
		return d.server.Run(lasting, ops.Health(ready, metricsPage(d.o.Registry)))
	})
}

// lacks is why nothing comes back from the overflow, or not for some queue; nil if it does.
func (d *Drainer) lacks() error {
	if d.o.Overflow == nil {
		return nil
	}
	if err := d.o.Overflow.Connected(); err != nil {
		return fmt.Errorf("jobs are delivered, and nothing comes back from the overflow: %w", err)
	}
	return d.o.Overflow.Stuck()
}

// Pace returns err if this drainer is late for most of its departures, and lacks if it releases more than 1% of them.
func (d *Drainer) Pace() (lacks, err error) { return d.pace.check() }

// Hanging is which queue hangs; nil if none does.
func (d *Drainer) Hanging() error { return hanging(d.o.Drain.Usage.Queues()) }

// hanging names the queue whose receiver holds most handlers of those that answer nothing; nil if none does.
func hanging(queues []drain.QueueUse) error {
	var first *drain.QueueUse
	more := -1
	for i := range queues {
		if q := &queues[i]; q.Hanging {
			if first == nil {
				first = q
			}
			more++
		}
	}
	if first == nil {
		return nil
	}
	others := ""
	if more > 0 {
		others = fmt.Sprintf("; so do %d more queues", more)
	}
	return fmt.Errorf("queue %s hangs: its receiver answers nothing, and it has %d handlers, one for %v%s; the other "+
		"queues go on; see its target, and lower its timeout",
		first.Queue, first.Handlers, first.Longest.Round(time.Second), others)
}

// Close frees the listener of a drainer that is not run.
func (d *Drainer) Close() error {
	if d.server == nil {
		return nil
	}
	return d.server.Close()
}
