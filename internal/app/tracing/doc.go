// Package tracing follows jobs by OpenTelemetry. An append is a producer's span, and each attempt to deliver a
// consumer's span in a trace of its own, linked to the append: a job may wait for days.
//
// What links them is the W3C trace context in the job's headers, traceparent and tracestate: so it goes wherever the
// job goes, and a job that is not sampled has none, unless its producer
// said under which span it is. A header that the producer gave the job itself stays.
//
// Only the variables OTEL_* turn it on. Without them there is no Tracer, and nothing of this package runs.
package tracing
