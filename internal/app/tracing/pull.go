package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"

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
	if !ok {
		return
	}
	ctx := withID(context.Background(), traceOf(digest(&job.Job)))
	_, span := t.tracer.Start(ctx, "receive "+job.Queue, trace.WithNewRoot(), trace.WithTimestamp(departed),
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithLinks(links...),
		trace.WithAttributes(append(about(job.Queue, "lease", "receive"), t.attempt(job)...)...))
	span.End()
}
