package tracing

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/queue"
)

// Drain returns a tracer of a drainer's deliveries; nil for a nil Tracer.
func (t *Tracer) Drain() drain.Tracer {
	if t == nil {
		return nil
	}
	return drainTracer{t}
}

type drainTracer struct{ t *Tracer }

// attempt holds the spans of a delivery attempt: a consumer span linked to the append, and within it the spans of the
// target and of settling. The target's span contains the gate's span.
type attempt struct {
	t       *Tracer
	ctx     context.Context // context of whole
	inside  context.Context // context of target
	departs time.Time
	whole   trace.Span
	target  trace.Span

	mu       sync.Mutex
	settle   trace.Span // nil until settling begins
	verdict  queue.Verdict
	returned bool
	settled  bool
}

// Begin implements drain.Tracer. In the headers sent, the target's span replaces the job's context, so that the
// receiver continues the trace from there. The stored job keeps its context.
func (d drainTracer) Begin(ctx context.Context, job *drain.Job, departs time.Time) (context.Context, drain.Span) {
	links, ok := d.t.follows(&job.Job)
	if !ok {
		return ctx, nil
	}
	a := &attempt{t: d.t, departs: departs}
	a.ctx, a.whole = d.t.tracer.Start(withID(ctx, traceOf(digest(&job.Job))), "process "+job.Queue, trace.WithNewRoot(),
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithLinks(links...),
		trace.WithAttributes(append(about(job.Queue, "deliver", "process"), d.t.attempt(&job.Reservation)...)...))
	a.inside, a.target = d.t.tracer.Start(a.ctx, "target", trace.WithSpanKind(trace.SpanKindClient))
	job.Headers = give(job.Headers, a.target.SpanContext())
	return a.inside, a
}

// follows reports whether a departing job is traced, and returns the link to its append.
func (t *Tracer) follows(job *queue.Job) (links []trace.Link, ok bool) {
	appended := ofJob(job.Headers)
	if !t.sampling.takes(digest(job), appended) {
		return nil, false
	}
	if appended.IsValid() {
		links = []trace.Link{{SpanContext: appended}}
	}
	return links, true
}

// attempt returns the attributes of a departing job.
func (t *Tracer) attempt(job *queue.Reservation) []attribute.KeyValue {
	list := append(t.job(&job.Job), attribute.Int("penstock.attempt", job.Attempt),
		seconds("penstock.wait.seconds", max(0, job.Age+job.In)))
	if ahead := job.NotBefore.Sub(job.AppendedAt); !job.NotBefore.IsZero() && ahead > 0 {
		list = append(list, seconds("penstock.wait.scheduled_seconds", ahead))
	}
	return list
}

// IDs implements drain.Span.
func (a *attempt) IDs() (traceID, spanID string) {
	sc := a.whole.SpanContext()
	return sc.TraceID().String(), sc.SpanID().String()
}

// Waited implements drain.Span.
func (a *attempt) Waited(since time.Time, err error) {
	now := time.Now()
	_, gate := a.t.tracer.Start(a.inside, "gate", trace.WithTimestamp(since))
	if err != nil {
		gate.SetStatus(codes.Error, "not let through")
	} else {
		gate.SetAttributes(seconds("penstock.late_seconds", max(0, now.Sub(a.departs))))
	}
	gate.End(trace.WithTimestamp(now))
}

// Settling implements drain.Span.
func (a *attempt) Settling(v queue.Verdict) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.settle != nil || a.returned {
		return
	}
	a.verdict = v
	_, a.settle = a.t.tracer.Start(a.ctx, "settle", trace.WithAttributes(attribute.String("penstock.verdict", v.String())))
}

// Returned implements drain.Span.
func (a *attempt) Returned(cause error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	what, failed := a.verdict.String(), a.verdict != queue.Deliver && a.verdict != queue.Release
	if a.settle == nil {
		what, failed = "given back", false
		if errors.Is(cause, drain.ErrLeaseLost) {
			what, failed = "lease lost", true
		}
	}
	for _, span := range []trace.Span{a.target, a.whole} {
		if failed {
			span.SetStatus(codes.Error, what)
			span.SetAttributes(attribute.String("error.type", what))
		}
	}
	a.target.End()
	a.returned = true
	if a.settle == nil || a.settled {
		a.whole.End()
	}
}

// Settled implements drain.Span.
func (a *attempt) Settled(state queue.State, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.settle == nil || a.settled {
		return
	}
	switch {
	case err != nil:
		a.settle.SetStatus(codes.Error, "given up")
	case state == queue.StateNone:
		a.settle.SetStatus(codes.Error, "lease lost")
	default:
		a.settle.SetAttributes(attribute.String("penstock.job.state", state.String()))
		a.whole.SetAttributes(attribute.String("penstock.job.state", state.String()))
	}
	a.settle.End()
	a.settled = true
	if a.returned {
		a.whole.End()
	}
}
