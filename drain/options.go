package drain

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/penstock/penstock/internal/departure"
)

// Defaults and limits of Options.
const (
	DefaultConcurrency = 128
	MaxConcurrency     = 100_000
	DefaultGrace       = 30 * time.Second
)

// Options are the settings of Run. The zero Options are valid.
type Options struct {
	// Concurrency is the maximum number of handlers of one queue that run, or wait in their gates, at once. Handlers wait
	// up to queue.Horizon for their departures, so the maximum outflow of a queue is Concurrency / (Horizon + the time
	// that a handler works). All queues together have at most MaxHandlers(Concurrency). A queue may take another handler
	// while it holds fewer than are free, so a queue whose receiver hangs does not stop the others.
	Concurrency int
	// AppOf returns the app of a queue, whose queues share a part of the handlers; nil if there are no apps.
	AppOf AppOf
	// Grace is how long handlers that have started may go on after Run's context has ended, before they are canceled.
	Grace time.Duration
	// Name is the drainer's name, for people; the default is host:pid.
	Name string
	// Version is the program's version, for people.
	Version string
	// Logger is for operators; the default discards.
	Logger *slog.Logger
	// Observer receives the drainer's events; the default does nothing.
	Observer Observer
	// Tracer traces deliveries; nil traces none.
	Tracer Tracer
	// Usage, if not nil, reports which queues hold the drainer's handlers.
	Usage *Usage
	// PlainTimers uses only the runtime's timers for departures, which fire up to a millisecond late on Linux.
	// testing/synctest needs it: time in a bubble stands still while a goroutine waits for the system's clock.
	PlainTimers bool
}

func (o Options) withDefaults() (Options, error) {
	if o.Concurrency < 0 || o.Concurrency > MaxConcurrency {
		return o, fmt.Errorf("drain: Options.Concurrency is %d: must be from 1 to %d, or 0 for %d", o.Concurrency,
			MaxConcurrency, DefaultConcurrency)
	}
	if o.Grace < 0 {
		return o, fmt.Errorf("drain: Options.Grace is %v: must not be negative; 0 means %v", o.Grace, DefaultGrace)
	}
	if o.Concurrency == 0 {
		o.Concurrency = DefaultConcurrency
	}
	if o.Grace == 0 {
		o.Grace = DefaultGrace
	}
	if o.Name == "" {
		o.Name = departure.ProcessName()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Observer == nil {
		o.Observer = NoObserver{}
	}
	return o, nil
}
