package tracing

import (
	"context"
	"maps"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/penstock/penstock/queue"
)

// Names of a trace context's headers on a job.
const (
	headerParent = "traceparent"
	headerState  = "tracestate"
)

// parentBytes is the length of a traceparent of version 00. Later versions may be longer.
const parentBytes = 55

// maxState is the maximum length of a forwarded tracestate: the minimum that the standard requires.
const maxState = 512

var format propagation.TraceContext

// read parses a trace context. An invalid parent yields an invalid context; an invalid state is dropped.
func read(parent, state string) trace.SpanContext {
	if parent == "" || len(parent) > maxState || strings.HasPrefix(parent, "00-") && len(parent) != parentBytes {
		return trace.SpanContext{}
	}
	if len(state) > maxState {
		state = ""
	}
	carrier := propagation.MapCarrier{headerParent: parent, headerState: state}
	return trace.SpanContextFromContext(format.Extract(context.Background(), carrier))
}

// ofRequest returns the trace context of a request. A repeated header yields an invalid context.
func ofRequest(h http.Header) trace.SpanContext {
	parent, state := h["Traceparent"], h["Tracestate"]
	if len(parent) != 1 {
		return trace.SpanContext{}
	}
	return read(parent[0], strings.Join(state, ","))
}

// ofJob returns the trace context that a job carries.
func ofJob(headers map[string]string) trace.SpanContext {
	if len(headers) == 0 {
		return trace.SpanContext{}
	}
	parent, _ := find(headers, headerParent)
	state, _ := find(headers, headerState)
	return read(headers[parent], headers[state])
}

// find looks for a header, ignoring case, and returns its name as written.
func find(headers map[string]string, name string) (as string, ok bool) {
	if _, ok := headers[name]; ok {
		return name, true
	}
	for as := range headers {
		if len(as) == len(name) && strings.EqualFold(as, name) {
			return as, true
		}
	}
	return "", false
}

// give returns a copy of headers with the trace context replaced.
func give(headers map[string]string, sc trace.SpanContext) map[string]string {
	given := make(map[string]string, len(headers)+2)
	maps.Copy(given, headers)
	for _, name := range []string{headerParent, headerState} {
		if as, ok := find(given, name); ok {
			delete(given, as)
		}
	}
	format.Inject(trace.ContextWithSpanContext(context.Background(), sc), propagation.MapCarrier(given))
	return given
}

// put adds a trace context to a job, unless the job has one or its headers would exceed the limits.
func put(j *queue.Job, sc trace.SpanContext) {
	if _, own := find(j.Headers, headerParent); own {
		return
	}
	if given := give(j.Headers, sc); fits(given) {
		j.Headers = given
	}
}

func fits(headers map[string]string) bool {
	size := 0
	for name, value := range headers {
		size += len(name) + len(value)
	}
	return len(headers) <= queue.MaxHeaders && size <= queue.MaxHeaderBytes
}

// Serve wraps a handler to read the trace context of requests, for their appends. A nil Tracer returns next.
func (t *Tracer) Serve(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if sc := ofRequest(r.Header); sc.IsValid() {
			r = r.WithContext(trace.ContextWithRemoteSpanContext(r.Context(), sc))
		}
		next.ServeHTTP(w, r)
	})
}
