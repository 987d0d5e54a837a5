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

// Options of Run. The zero Options are useful.
type Options struct {
	// Concurrency is how many handlers of one queue may be at work, or waiting in their gates, at
	// once. Handlers wait up to queue.Horizon for their departures, so the fastest
	// outflow of a queue is Concurrency / (Horizon + the time that the work takes).
	// Of all queues together there are at most twice as many, see MaxHandlers: a queue may take
	// another while it holds fewer than are free, so that one whose receiver hangs stops no other.
	Concurrency int
	// AppOf says whose queues are that share their part of the handlers; nil if none do.
	AppOf AppOf
	// Grace is how long handlers that have started may go on once Run's context has
	// ended, before theirs are cancelled.
	Grace time.Duration
	// Name is the drainer's name for people; the default is host:pid.
	Name string
	// Version is the program's, for people.
	Version string
	// Logger gets what an operator should know; the default discards.
	Logger *slog.Logger
	// Observer is told what happens; the default does nothing.
	Observer Observer
	// Tracer, if it is given, follows attempts.
	Tracer Tracer
	// Usage, if it is given, tells who holds the handlers.
	Usage *Usage
	// PlainTimers leaves departures to the runtime's timers alone, which on Linux
	// fire up to a millisecond late. testing/synctest needs it: a bubble's
	// time stands still while a goroutine waits for the system's clock.
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
