package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/penstock/penstock/internal/metrics"
	"github.com/penstock/penstock/internal/ops"
)

// closeTimeout is the maximum time to send the last spans when the process ends.
const closeTimeout = 5 * time.Second

// Options are the settings of a Tracer.
type Options struct {
	Service  string // service name, unless OTEL_SERVICE_NAME sets one
	Lanes    bool   // include lanes in spans; they may identify people
	Registry prometheus.Registerer
	Logger   *slog.Logger
}

// Tracer records and sends spans. A nil Tracer does nothing.
type Tracer struct {
	sampling sampling
	lanes    bool
	log      *slog.Logger
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	stop     context.CancelFunc // cancels a running export

	asking  sync.WaitGroup
	askings chan struct{} // one element per question within askEvery
}

// Open returns a Tracer configured by the environment, or nil if tracing is not enabled. It does not dial before there
// is a span to send.
func Open(o Options) (*Tracer, error) {
	on, err := wanted()
	if err != nil || !on {
		return nil, err
	}
	t := &Tracer{lanes: o.Lanes, log: o.Logger, askings: make(chan struct{}, maxAskings)}
	if t.sampling, err = samplingFromEnv(); err != nil {
		return nil, err
	}
	most, err := maxPending()
	if err != nil {
		return nil, err
	}
	spans, err := metrics.NewSpans(o.Registry)
	if err != nil {
		return nil, err
	}
	of, err := resource.New(context.Background(),
		resource.WithAttributes(
			attribute.String("service.name", o.Service), attribute.String("service.version", ops.Version),
		),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, ops.Misuse(fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err))
	}
	sender, err := newSender()
	if err != nil {
		return nil, err
	}
	sends, err := otlptrace.New(context.Background(), sender)
	if err != nil {
		return nil, err
	}
	out := &exporter{SpanExporter: sends, spans: spans, most: int64(most), log: o.Logger}
	out.life, t.stop = context.WithCancel(context.Background())
	batches := sdktrace.NewBatchSpanProcessor(out, sdktrace.WithMaxQueueSize(most))
	t.provider = sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.AlwaysSample()), // only sampled spans are started
		sdktrace.WithIDGenerator(ids{}), sdktrace.WithResource(of),
		sdktrace.WithSpanProcessor(&bounded{SpanProcessor: batches, out: out}),
	)
	t.tracer = t.provider.Tracer("penstock", trace.WithInstrumentationVersion(ops.Version))
	o.Logger.Info("tracing enabled", "service", o.Service)
	return t, nil
}

// Close sends the remaining spans, for at most 5 s. Tracing must have ended.
func (t *Tracer) Close() error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	t.asking.Wait()
	err := t.provider.Shutdown(ctx)
	t.stop()
	if errors.Is(err, context.DeadlineExceeded) {
		t.log.Warn("the last spans were not sent: the collector does not answer", "for", closeTimeout)
		err = nil // no reason for the process to fail
	}
	return err
}

// system is an attribute of every span.
var system = attribute.String("messaging.system", "penstock")

// about returns the common attributes of spans about a queue.
func about(name, operation, kind string) []attribute.KeyValue {
	return []attribute.KeyValue{
		system, attribute.String("messaging.destination.name", name),
		attribute.String("messaging.operation.name", operation), attribute.String("messaging.operation.type", kind),
	}
}
