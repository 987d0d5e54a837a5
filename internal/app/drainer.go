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

// DrainerOptions are the settings of a Drainer. Zero fields mean the defaults named here.
type DrainerOptions struct {
	// Handler gets the jobs. It must not be nil.
	Handler drain.Handler
	// Drain has the settings of the outflow. NewDrainer sets Observer, Tracer and AppOf, and Usage if it is nil.
	Drain drain.Options
	// Owners knows the apps of queues. The Drainer runs it. Nil means a new one.
	Owners *auth.Owners
	// Overflow has the jobs to bring back. The caller runs it for as long as the Drainer. Nil means none.
	Overflow *deferred.Stream
	// Listen is the listener of health and metrics. Empty means none.
	Listen ops.Listen
	Server ops.ServerOptions
	// Tracer traces deliveries; nil traces none. The caller closes it.
	Tracer *tracing.Tracer
	// Decisions logs stops of queues; nil logs none. The caller closes it.
	Decisions *ops.Decisions
	// Registry receives the metrics, and /metrics shows it. Nil means a new one.
	Registry *prometheus.Registry
	// MaxQueueLabels is the number of queues with metrics of their own; 0 means metrics.DefaultMaxQueues.
	MaxQueueLabels int
	Logger         *slog.Logger // by default discards
}

var errStopping = errors.New("this drainer is stopping")

// Drainer delivers jobs out of a store, and serves health and metrics.
type Drainer struct {
	engine queue.Engine
	server *ops.Server // nil without an address
	pace   *pace
	owners *auth.Owners
	o      DrainerOptions
}

// NewDrainer binds the listener of health and metrics. The caller calls Run or Close.
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
	pace := newPace(time.Now)
	o.Drain.Observer, o.Drain.Tracer = drainPace{drainDecisions{observer, o.Decisions}, pace}, o.Tracer.Drain()
	if o.Drain.Usage == nil {
		o.Drain.Usage = &drain.Usage{}
	}
	if err := metrics.NewHandlers(o.Registry, o.Drain.Usage, o.MaxQueueLabels); err != nil {
		return nil, err
	}
	d := &Drainer{engine: engine, o: o, pace: pace, owners: o.Owners}
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

// Addr returns the address of health and metrics, nil if they are not served.
func (d *Drainer) Addr() net.Addr {
	if d.server == nil {
		return nil
	}
	return d.server.Addr()
}

// Run drains until ctx ends. Then it gives back jobs that have not started and lets the others finish. Health and
// metrics are served until that is over.
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

// lacks returns why jobs do not come back from the overflow, nil if they do.
func (d *Drainer) lacks() error {
	if d.o.Overflow == nil {
		return nil
	}
	if err := d.o.Overflow.Connected(); err != nil {
		return fmt.Errorf("jobs are delivered, but none come back from the overflow: %w", err)
	}
	return d.o.Overflow.Stuck()
}

// Pace returns err if this drainer is late for most of its departures, and lacks if it releases more than 1% of them.
func (d *Drainer) Pace() (lacks, err error) { return d.pace.check() }

// Hanging returns an error if a queue hangs.
func (d *Drainer) Hanging() error { return hanging(d.o.Drain.Usage.Queues()) }

// hanging returns an error that names the hanging queue with the most handlers, which is the first, or nil.
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
		others = fmt.Sprintf("; more hanging queues: %d", more)
	}
	return fmt.Errorf("queue %s hangs: its receiver does not answer; it holds %d handlers, the longest for %v%s; other "+
		"queues go on; check its target, and lower its timeout",
		first.Queue, first.Handlers, first.Longest.Round(time.Second), others)
}

// Close closes the listener of a Drainer that is not run.
func (d *Drainer) Close() error {
	if d.server == nil {
		return nil
	}
	return d.server.Close()
}
