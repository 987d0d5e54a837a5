package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/deferred"
	"github.com/penstock/penstock/internal/metrics"
	"github.com/penstock/penstock/queue"
)

// NewOverflow returns the overflow on a connection to NATS, and registers its metrics. The caller closes the
// connection. Run or Open opens the overflow.
func NewOverflow(
	nc *nats.Conn, o deferred.Options, reg prometheus.Registerer, maxQueueLabels int,
) (*deferred.Stream, error) {
	counted, err := metrics.NewOverflow(reg, maxQueueLabels)
	if err != nil {
		return nil, err
	}
	o.Observer = counted
	return deferred.NewStream(nc, o)
}

// overflowOpener returns the function that opens the overflow, for BaseOptions. If NATS is away the process starts all
// the same, but errors that waiting does not fix are returned at once. Without --nats no queue may have the setting
// overflow: defer; that is better reported now than when a queue is full.
func (f *NATSFlags) overflowOpener(
	name string, labels int, log *slog.Logger,
) func(context.Context, *Base) (*deferred.Stream, error) {
	return func(ctx context.Context, b *Base) (*deferred.Stream, error) {
		if f.NATS == "" {
			return nil, nobodyDefers(ctx, b.Engine)
		}
		bytes, err := f.maxBytes()
		if err != nil {
			return nil, err
		}
		conn, err := f.connect(name, log)
		if err != nil {
			return nil, fmt.Errorf("--nats: %w", withoutURL(err, f.NATS))
		}
		b.Add("connection to nats", func() error { conn.Close(); return nil })
		stream, err := NewOverflow(conn, deferred.Options{
			Prefix: f.NATSPrefix, Replicas: f.NATSReplicas, MaxBytes: bytes, Logger: log,
		}, b.Registry, labels)
		if err == nil {
			err = firstLook(ctx, stream)
		}
		if err != nil {
			return nil, fmt.Errorf("--nats: %w", err)
		}
		return stream, nil
	}
}

// natsPatience is how long a start waits for a NATS that is connected but does not answer.
const natsPatience = 5 * time.Second

// firstLook opens the overflow and returns errors that waiting does not fix. Run reports all others.
func firstLook(ctx context.Context, stream *deferred.Stream) error {
	look, cancel := context.WithTimeout(ctx, natsPatience)
	defer cancel()
	if err := stream.Open(look); errors.Is(err, deferred.ErrUnfit) {
		return err
	}
	return ctx.Err()
}

// nobodyDefers returns an error if a queue needs an overflow.
func nobodyDefers(ctx context.Context, engine queue.Specs) error {
	const page = 500
	for after := ""; ; {
		infos, err := engine.List(ctx, after, page)
		if errors.Is(err, queue.ErrUnavailable) || err == nil && len(infos) == 0 {
			return nil // readiness reports a store that is away
		}
		if err != nil {
			return err
		}
		for i := range infos {
			if infos[i].Spec.Overflow == queue.Defer {
				return fmt.Errorf("--nats is missing: queue %s has overflow: defer; give the NATS to put its jobs "+
					"on, or set it to reject", infos[i].Spec.Name)
			}
		}
		after = infos[len(infos)-1].Spec.Name
	}
}

// Look returns a function that reads the state of the overflow's streams and changes nothing; nil without --nats. The
// caller calls disconnect in the end.
func (f *NATSFlags) Look(name string, log *slog.Logger) (
	look func(context.Context) ([]deferred.StreamState, error), disconnect func(), err error,
) {
	if f.NATS == "" {
		return nil, func() {}, nil
	}
	bytes, err := f.maxBytes()
	if err != nil {
		return nil, nil, err
	}
	conn, err := f.connect(name, log)
	if err != nil {
		return nil, nil, fmt.Errorf("--nats: %w", withoutURL(err, f.NATS))
	}
	stream, err := deferred.NewStream(conn, deferred.Options{
		Prefix: f.NATSPrefix, Replicas: f.NATSReplicas, MaxBytes: bytes, Logger: log,
	})
	if err != nil {
		conn.Close()
		return nil, nil, fmt.Errorf("--nats: %w", err)
	}
	return stream.Look, conn.Close, nil
}
