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
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue"
)

// NewOverflow returns the overflow on a connection to NATS, which stays the caller's,
// and registers its metrics. It is opened by its Run, or by Open.
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

// overflow is a process's own overflow, with its connection; without --nats it is
// nothing at all.
type overflow struct {
	*deferred.Stream
	conn *nats.Conn
}

// newOverflow makes what the flags name. NATS may be away: the process starts all the same.
// But what waiting does not mend is told at once, if NATS is there to tell it. Without
// --nats no queue may need it: to be told so at the start is better than when the queue is
// full.
func (f *NATSFlags) newOverflow(
	ctx context.Context, name string, engine queue.Specs, reg prometheus.Registerer, labels int, log *slog.Logger,
) (overflow, error) {
	if f.NATS == "" {
		return overflow{}, nobodyDefers(ctx, engine)
	}
	bytes, err := f.maxBytes()
	if err != nil {
		return overflow{}, err
	}
	conn, err := f.connect(name, log)
	if err != nil {
		return overflow{}, fmt.Errorf("--nats: %w", withoutURL(err, f.NATS))
	}
	stream, err := NewOverflow(conn, deferred.Options{
		Prefix: f.NATSPrefix, Replicas: f.NATSReplicas, MaxBytes: bytes, Logger: log,
	}, reg, labels)
	if err == nil {
		err = firstLook(ctx, stream)
	}
	if err != nil {
		conn.Close()
		return overflow{}, fmt.Errorf("--nats: %w", err)
	}
	return overflow{stream, conn}, nil
}

// natsPatience is how long a start waits for a NATS that is connected and does not answer.
const natsPatience = 5 * time.Second

// firstLook returns an error where waiting mends nothing. Of anything else Run will tell.
func firstLook(ctx context.Context, stream *deferred.Stream) error {
	look, cancel := context.WithTimeout(ctx, natsPatience)
	defer cancel()
	if err := stream.Open(look); errors.Is(err, deferred.ErrUnfit) {
		return err
	}
	return ctx.Err()
}

// under runs a process on the overflow.
func (o overflow) under(ctx context.Context, process func(context.Context) error) error {
	if o.Stream == nil {
		return process(ctx)
	}
	return ops.RunOver(ctx, process, o.Run)
}

func (o overflow) close() {
	if o.conn != nil {
		o.conn.Close()
	}
}

// nobodyDefers is an error if a queue's spec wants an overflow.
func nobodyDefers(ctx context.Context, engine queue.Specs) error {
	const page = 500
	for after := ""; ; {
		infos, err := engine.List(ctx, after, page)
		if errors.Is(err, queue.ErrUnavailable) || err == nil && len(infos) == 0 {
			return nil // a store that is away now is told of by readiness
		}
		if err != nil {
			return err
		}
		for i := range infos {
			if infos[i].Spec.Overflow == queue.Defer {
				return fmt.Errorf("--nats is missing: queue %s has overflow: defer; name the NATS to put its jobs "+
					"on, or set it to reject", infos[i].Spec.Name)
			}
		}
		after = infos[len(infos)-1].Spec.Name
	}
}

// Look returns what tells how the overflow is, and changes nothing of it; nil without --nats. End it with done.
func (f *NATSFlags) Look(name string, log *slog.Logger) (
	look func(context.Context) ([]deferred.StreamState, error), done func(), err error,
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
