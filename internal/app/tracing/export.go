package tracing

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/penstock/penstock/internal/metrics"
)

// complaintPause is the minimum time between two log messages about failed exports.
const complaintPause = time.Minute

// exporter sends spans and counts the results.
type exporter struct {
	sdktrace.SpanExporter
	spans    *metrics.Spans
	log      *slog.Logger
	life     context.Context
	most     int64
	pending  atomic.Int64 // spans waiting or being sent
	complain time.Time    // earliest time of the next log message; only one goroutine sends
}

// ExportSpans implements sdk/trace.SpanExporter. It logs errors itself because the SDK has only a global error handler.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	defer e.pending.Add(-int64(len(spans)))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.life, cancel)()
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		e.spans.Sent(len(spans))
		return nil
	}
	e.spans.Failed(len(spans))
	if now := time.Now(); now.After(e.complain) {
		e.complain = now.Add(complaintPause)
		e.log.Warn("spans could not be sent and are lost; jobs are not affected", "spans", len(spans), "error", err)
	}
	return nil
}

// Shutdown implements sdk/trace.SpanExporter.
func (e *exporter) Shutdown(ctx context.Context) error {
	if err := e.SpanExporter.Shutdown(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// bounded drops and counts spans beyond the limit. The processor behind it would drop them silently.
type bounded struct {
	sdktrace.SpanProcessor
	out *exporter
}

// OnEnd implements sdk/trace.SpanProcessor.
func (b *bounded) OnEnd(s sdktrace.ReadOnlySpan) {
	if b.out.pending.Add(1) > b.out.most {
		b.out.pending.Add(-1)
		b.out.spans.Dropped()
		return
	}
	b.SpanProcessor.OnEnd(s)
}
