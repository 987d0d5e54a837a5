// Package otlptest receives the traces of a test, by OTLP over HTTP.
package otlptest

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/penstock/penstock/internal/test/await"
)

// Receiver keeps the spans that it receives.
type Receiver struct {
	*httptest.Server
	mu    sync.Mutex
	spans []Span
}

// Span is a received span.
type Span struct {
	Service, Name, Kind    string
	Trace, ID, Parent      string // in hexadecimal
	Links                  []string
	Attributes             map[string]any
	Error                  string // the text of its status, if that is an error
	StartNanos, UntilNanos uint64
}

// New starts a receiver.
func New(t testing.TB) *Receiver {
	r := &Receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var sent tracev1.TracesData // the same on the wire as an ExportTraceServiceRequest, whose package would link gRPC
		if err == nil {
			err = proto.Unmarshal(body, &sent)
		}
		if err != nil || req.URL.Path != "/v1/traces" {
			t.Errorf("%s %s: %v", req.Method, req.URL, err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, of := range sent.ResourceSpans {
			service, _ := attributes(of.Resource.Attributes)["service.name"].(string)
			for _, scope := range of.ScopeSpans {
				for _, s := range scope.Spans {
					r.spans = append(r.spans, span(service, s))
				}
			}
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func span(service string, s *tracev1.Span) Span {
	got := Span{
		Service: service, Name: s.Name, Kind: strings.ToLower(strings.TrimPrefix(s.Kind.String(), "SPAN_KIND_")),
		Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId), Parent: hex.EncodeToString(s.ParentSpanId),
		Attributes: attributes(s.Attributes), StartNanos: s.StartTimeUnixNano, UntilNanos: s.EndTimeUnixNano,
	}
	if s.Status != nil && s.Status.Code == tracev1.Status_STATUS_CODE_ERROR {
		got.Error = s.Status.Message
	}
	for _, l := range s.Links {
		got.Links = append(got.Links, hex.EncodeToString(l.TraceId)+"-"+hex.EncodeToString(l.SpanId))
	}
	return got
}

func attributes(list []*common.KeyValue) map[string]any {
	m := map[string]any{}
	for _, a := range list {
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			m[a.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			m[a.Key] = v.IntValue
		case *common.AnyValue_DoubleValue:
			m[a.Key] = v.DoubleValue
		}
	}
	return m
}

// Spans returns the spans received so far.
func (r *Receiver) Spans() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Span(nil), r.spans...)
}

// Find returns the spans with a name that are about the job with an ID, or all of them if the ID is empty.
func (r *Receiver) Find(name, id string) (found []Span) {
	for _, s := range r.Spans() {
		if s.Name == name && (id == "" || s.Attributes["messaging.message.id"] == id) {
			found = append(found, s)
		}
	}
	return found
}

// One waits for the only span that Find returns.
func (r *Receiver) One(t testing.TB, name, id string) Span {
	t.Helper()
	var found []Span
	await.Until(t, "span "+name+" of "+id+" arrives", func() bool {
		found = r.Find(name, id)
		return len(found) > 0
	})
	if len(found) != 1 {
		t.Fatalf("%d spans %s of %s", len(found), name, id)
	}
	return found[0]
}

// Below waits for the only child of a span with a name.
func (r *Receiver) Below(t testing.TB, parent Span, name string) (child Span) {
	t.Helper()
	await.Until(t, "span "+name+" below "+parent.Name, func() bool {
		for _, s := range r.Find(name, "") {
			if s.Parent == parent.ID && s.Trace == parent.Trace {
				child = s
				return true
			}
		}
		return false
	})
	return child
}

// Context returns the context by which other spans link to the span.
func (s Span) Context() string { return s.Trace + "-" + s.ID }
