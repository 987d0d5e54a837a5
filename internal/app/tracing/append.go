package tracing

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
)

// Limits on asking the engine what an appended job waits for: maxAskings questions per askEvery, and as many at a time.
const (
	maxAskings = 4
	askEvery   = 200 * time.Millisecond
	askTimeout = time.Second
)

// engine makes a span for each append.
type engine struct {
	queue.Engine
	t *Tracer
}

// Engine wraps an engine to trace appends. A nil Tracer returns the engine itself.
func (t *Tracer) Engine(next queue.Engine) queue.Engine {
	if t == nil {
		return next
	}
	return &engine{next, t}
}

// Append implements queue.Appender. The jobs of one call share a span. The span of a turn is that of its wait.
func (e *engine) Append(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	if len(jobs) == 1 && pull.IsTurn(&jobs[0]) {
		return e.Engine.Append(ctx, jobs)
	}
	parent := trace.SpanContextFromContext(ctx)
	if parent.IsValid() && len(jobs) > 0 {
		if e.t.sampling.takes(0, parent) {
			return e.traced(ctx, jobs, func(*queue.Job) bool { return true })
		}
		sent := slices.Clone(jobs) // jobs belongs to the caller
		for i := range sent {
			put(&sent[i], parent) // the caller decided not to record the trace; deliveries follow
		}
		return e.Engine.Append(ctx, sent)
	}
	for i := range jobs {
		if job := digest(&jobs[i]); e.t.sampling.takes(job, parent) {
			return e.traced(withID(ctx, traceOf(job)), jobs, func(j *queue.Job) bool {
				return e.t.sampling.takes(digest(j), parent)
			})
		}
	}
	return e.Engine.Append(ctx, jobs)
}

// traced appends within a span. Jobs for which takes is true carry its context.
func (e *engine) traced(ctx context.Context, jobs []queue.Job, takes func(*queue.Job) bool) ([]queue.Appended, error) {
	ctx, span := e.t.tracer.Start(ctx, "send "+jobs[0].Queue, trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithLinks(linksTo(jobs)...), trace.WithAttributes(e.t.sends(jobs)...))
	sent := slices.Clone(jobs)
	for i := range sent {
		if takes(&sent[i]) {
			put(&sent[i], span.SpanContext())
		}
	}
	answers, err := e.Engine.Append(ctx, sent)
	if len(answers) != len(jobs) {
		span.SetStatus(codes.Error, "failed")
		span.SetAttributes(attribute.String("error.type", queue.Failed.String()))
		span.End()
		return answers, err
	}
	describe(span, answers)
	e.end(span, jobs, answers)
	return answers, err
}

// linksTo returns a link to the trace context that a single job brings.
func linksTo(jobs []queue.Job) []trace.Link {
	if len(jobs) != 1 {
		return nil
	}
	sc := ofJob(jobs[0].Headers)
	if !sc.IsValid() {
		return nil
	}
	return []trace.Link{{SpanContext: sc}}
}

func (t *Tracer) sends(jobs []queue.Job) []attribute.KeyValue {
	list := about(jobs[0].Queue, "append", "send")
	if len(jobs) > 1 {
		return append(list, attribute.Int("messaging.batch.message_count", len(jobs)))
	}
	return append(list, t.job(&jobs[0])...)
}

// job returns the attributes of a job.
func (t *Tracer) job(j *queue.Job) []attribute.KeyValue {
	list := []attribute.KeyValue{attribute.String("messaging.message.id", j.ID)}
	if len(j.Payload) > 0 { // a pulled job no longer has its payload
		list = append(list, attribute.Int("messaging.message.body.size", len(j.Payload)))
	}
	if t.lanes && j.Lane != "" {
		list = append(list, attribute.String("penstock.lane", j.Lane))
	}
	return list
}

// describe records the outcomes on the span. A refused job is an error; the first one names the error's type.
func describe(span trace.Span, answers []queue.Appended) {
	refused := 0
	for i := range answers {
		if o := answers[i].Outcome; o != queue.Accepted && o != queue.Duplicate {
			if refused == 0 {
				span.SetStatus(codes.Error, o.String())
				span.SetAttributes(attribute.String("error.type", o.String()))
			}
			refused++
		}
	}
	if len(answers) > 1 {
		span.SetAttributes(attribute.Int("penstock.refused", refused))
		return
	}
	a := &answers[0]
	span.SetAttributes(attribute.String("penstock.outcome", a.Outcome.String()))
	if a.State != queue.StateNone {
		span.SetAttributes(attribute.String("penstock.job.state", a.State.String()))
	}
	if a.Outcome != queue.Accepted {
		return
	}
	if a.Position > 0 {
		span.SetAttributes(attribute.Int64("penstock.wait.position", a.Position))
	}
	if !a.ETA.At.IsZero() {
		span.SetAttributes(seconds("penstock.wait.expected_seconds", max(0, time.Until(a.ETA.At))))
	}
}

// end ends the span of an append. For a single job it first asks the engine, in the background, what the job waits for.
// It does not ask if it has just asked about other jobs.
func (e *engine) end(span trace.Span, jobs []queue.Job, answers []queue.Appended) {
	now := trace.WithTimestamp(time.Now())
	if len(jobs) > 1 || answers[0].Outcome != queue.Accepted {
		span.End(now)
		return
	}
	select {
	case e.t.askings <- struct{}{}:
	default:
		span.End(now)
		return
	}
	name, id := jobs[0].Queue, answers[0].ID
	e.t.asking.Go(func() {
		next := time.Now().Add(askEvery)
		defer func() { time.AfterFunc(time.Until(next), func() { <-e.t.askings }) }()
		defer span.End(now)
		ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
		defer cancel()
		if info, err := e.Engine.Job(ctx, name, id); err == nil {
			span.SetAttributes(waitsFor(&info.Why)...)
		}
	})
}

func waitsFor(w *queue.Why) (list []attribute.KeyValue) {
	if w.By == "" {
		return nil
	}
	list = append(list, attribute.String("penstock.wait.cause", string(w.By)))
	if w.Queue != "" {
		list = append(list, attribute.String("penstock.wait.queue", w.Queue))
	}
	if !w.Until.IsZero() {
		list = append(list, attribute.String("penstock.wait.until", w.Until.UTC().Format(time.RFC3339Nano)))
	}
	return list
}

func seconds(name string, d time.Duration) attribute.KeyValue {
	return attribute.Float64(name, d.Seconds())
}
