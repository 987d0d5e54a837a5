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

// The headers of a trace context, as a job has them.
const (
	headerParent = "traceparent"
	headerState  = "tracestate"
)

// parentBytes is the length of a traceparent of version 00; later ones may have more.
const parentBytes = 55

// maxState is the longest tracestate that is taken over: what the standard asks to be passed on at least.
const maxState = 512

var format propagation.TraceContext

// read makes a trace context of the two headers. One that is not as the standard has it is none; a bad state is left
// out.
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

// ofRequest is the context that a request came with. One that is given twice is nobody's.
func ofRequest(h http.Header) trace.SpanContext {
	parent, state := h["Traceparent"], h["Tracestate"]
	if len(parent) != 1 {
		return trace.SpanContext{}
	}
	return read(parent[0], strings.Join(state, ","))
}

// ofJob is the context that a job carries.
func ofJob(headers map[string]string) trace.SpanContext {
	if len(headers) == 0 {
		return trace.SpanContext{}
	}
	parent, _ := find(headers, headerParent)
	state, _ := find(headers, headerState)
	return read(headers[parent], headers[state])
}

// find looks for a header, however it is written.
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

// give returns headers with a context in them in place of the one that they have.
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

// put gives a job a context to carry, unless it has one of its own, or no room for it.
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

// Serve reads the context that requests come with, for what they append. A nil Tracer serves them as they are.
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
