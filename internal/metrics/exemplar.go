package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/penstock/penstock/drain"
)

// observe adds to a histogram, with the trace as an exemplar if there is one.
func observe(h prometheus.Histogram, v float64, exemplar prometheus.Labels) {
	if exemplar == nil {
		h.Observe(v)
		return
	}
	h.(prometheus.ExemplarObserver).ObserveWithExemplar(v, exemplar)
}

func exemplarOf(ctx context.Context) prometheus.Labels {
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsSampled() || sc.IsRemote() { // a remote span may be sampled although this process does not record the trace
		return nil
	}
	return exemplar(sc.TraceID().String(), sc.SpanID().String())
}

func exemplarOfJob(job *drain.Job) prometheus.Labels {
	if job.Span == nil {
		return nil
	}
	return exemplar(job.Span.IDs())
}

func exemplar(traceID, spanID string) prometheus.Labels {
	return prometheus.Labels{"trace_id": traceID, "span_id": spanID}
}
