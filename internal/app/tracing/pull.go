package tracing

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
)

// Pull returns a function for pull.Options.Handed that traces jobs handed to workers; nil for a nil Tracer. Workers can
// continue the trace from the context in the job's headers.
func (t *Tracer) Pull() func(job *queue.Reservation, departed time.Time) {
	if t == nil {
		return nil
	}
	return t.handed
}

func (t *Tracer) handed(job *queue.Reservation, departed time.Time) {
	links, ok := t.follows(&job.Job)
	if !ok || pull.IsTurn(&job.Job) {
		return
	}
	ctx := withID(context.Background(), traceOf(digest(&job.Job)))
	_, span := t.tracer.Start(ctx, "receive "+job.Queue, trace.WithNewRoot(), trace.WithTimestamp(departed),
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithLinks(links...),
		trace.WithAttributes(append(about(job.Queue, "lease", "receive"), t.attempt(job)...)...))
	span.End()
}

// Waits returns a function for pull.Options.Waited that traces waits for turns, and so those of proxied calls; nil for
// a nil Tracer.
func (t *Tracer) Waits() func(context.Context, pull.Waited) {
	if t == nil {
		return nil
	}
	return t.waited
}

// waited makes a span for a wait, as a child of the request's trace context.
func (t *Tracer) waited(ctx context.Context, w pull.Waited) {
	lot := rand.Uint64()
	if !t.sampling.takes(lot, trace.SpanContextFromContext(ctx)) {
		return
	}
	list := []attribute.KeyValue{
		system, attribute.String("messaging.destination.name", w.Queue), attribute.Int64("penstock.cost", w.Cost),
		seconds("penstock.wait.seconds", time.Since(w.Since)),
	}
	if t.lanes && w.Lane != "" {
		list = append(list, attribute.String("penstock.lane", w.Lane))
	}
	_, span := t.tracer.Start(
		withID(ctx, traceOf(lot)), "wait "+w.Queue, trace.WithTimestamp(w.Since), trace.WithAttributes(list...),
	)
	if w.Err != nil {
		what := whyNoTurn(ctx, w.Err)
		span.SetStatus(codes.Error, what)
		span.SetAttributes(attribute.String("error.type", what))
	}
	span.End()
}

// whyNoTurn names the kind of an error of a caller that got no turn.
func whyNoTurn(ctx context.Context, err error) string {
	var later *pull.Later
	switch {
	case errors.As(err, &later):
		return "no_turn"
	case ctx.Err() != nil, errors.Is(err, pull.ErrTurnCanceled):
		return "canceled"
	}
	return queue.Failed.String()
}
