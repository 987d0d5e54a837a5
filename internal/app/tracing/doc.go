// Package tracing traces jobs with OpenTelemetry. An append is a producer span. Each delivery attempt is a consumer
// span in its own trace, linked to the append, because a job may wait for days.
//
// The link is the W3C trace context in the job's headers, traceparent and tracestate, so it travels with the job. A job
// that is not sampled has no context, unless its producer sent one. A header that the producer set on the job stays.
//
// Only the environment variables OTEL_* enable tracing. Without them the Tracer is nil and this package does nothing.
package tracing
