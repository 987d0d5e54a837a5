package tracing

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/penstock/penstock/queue"
)

const (
	goodTrace  = "0af7651916cd43dd8448eb211c80319c"
	goodSpan   = "b7ad6b7169203331"
	goodParent = "00-" + goodTrace + "-" + goodSpan + "-01"
)

// An invalid trace context is ignored, whatever its source.
func TestHostileContext(t *testing.T) {
	bad := []string{
		"", "00", "-", "---", goodParent + "-", goodParent + "-more", "00-" + goodTrace + "-" + goodSpan,
		strings.ToUpper(goodParent), "ff-" + goodTrace + "-" + goodSpan + "-01", "00-" + goodTrace + "-" + goodSpan + "-ff",
		"00-" + strings.Repeat("0", 32) + "-" + goodSpan + "-01", "00-" + goodTrace + "-" + strings.Repeat("0", 16) + "-01",
		"00-" + goodTrace[1:] + "g-" + goodSpan + "-01", " " + goodParent, "00-" + goodTrace + "\x00-" + goodSpan + "-01",
		strings.Repeat("a", 1<<20), "\xff\xfe", "00_" + goodTrace + "_" + goodSpan + "_01",
	}
	for _, parent := range bad {
		if sc := ofJob(map[string]string{headerParent: parent, headerState: "a=b"}); sc.IsValid() {
			t.Errorf("a job's %.60q is read as %v", parent, sc)
		}
		if sc := ofRequest(http.Header{"Traceparent": {parent}}); sc.IsValid() {
			t.Errorf("a request's %.60q is read as %v", parent, sc)
		}
	}
	if ofRequest(http.Header{"Traceparent": {goodParent, goodParent}}).IsValid() {
		t.Error("a request has two")
	}
	for _, state := range []string{strings.Repeat("a", 1<<20), "=", "a=b,a=c", "\x00", strings.Repeat("a=b,", 100)} {
		sc := ofRequest(http.Header{"Traceparent": {goodParent}, "Tracestate": {state}})
		if !sc.IsValid() || sc.TraceState().Len() != 0 {
			t.Errorf("with the state %.40q: %v", state, sc)
		}
	}
}

func TestContextIsRead(t *testing.T) {
	for _, headers := range []map[string]string{
		{"traceparent": goodParent, "tracestate": "a=b"}, {"Traceparent": goodParent, "TraceState": "a=b", "X": "y"},
	} {
		sc := ofJob(headers)
		if sc.TraceID().String() != goodTrace || sc.SpanID().String() != goodSpan || !sc.IsSampled() ||
			sc.TraceState().String() != "a=b" {
			t.Errorf("%v: %v", headers, sc)
		}
	}
	if sc := ofRequest(http.Header{"Traceparent": {"00-" + goodTrace + "-" + goodSpan + "-00"}}); !sc.IsValid() ||
		sc.IsSampled() {
		t.Errorf("not sampled: %v", sc)
	}
}

// A job without a context gets one if there is room. The caller's headers do not change.
func TestJobCarries(t *testing.T) {
	sc := read(goodParent, "a=b")
	full := map[string]string{}
	for i := range queue.MaxHeaders {
		full["X-"+strings.Repeat("a", i+1)] = ""
	}
	for name, c := range map[string]struct{ before, after map[string]string }{
		"none": {nil, map[string]string{"traceparent": goodParent, "tracestate": "a=b"}},
		"others": {
			map[string]string{"X": "y"},
			map[string]string{"X": "y", "traceparent": goodParent, "tracestate": "a=b"},
		},
		"a state": {
			map[string]string{"TraceState": "c=d"},
			map[string]string{"traceparent": goodParent, "tracestate": "a=b"},
		},
		"its own":   {map[string]string{"TraceParent": "mine"}, map[string]string{"TraceParent": "mine"}},
		"as many":   {full, full},
		"as large":  {map[string]string{"X": strings.Repeat("y", queue.MaxHeaderBytes-1)}, nil},
		"too large": {map[string]string{"X": strings.Repeat("y", queue.MaxHeaderBytes-79)}, nil},
	} {
		before := maps.Clone(c.before)
		j := queue.Job{Queue: "q", ID: "a", Headers: c.before}
		put(&j, sc)
		j.Normalize()
		after := c.after
		if after == nil {
			after = before
		}
		if !maps.Equal(j.Headers, after) || !maps.Equal(c.before, before) {
			t.Errorf("%s: %.300v, and its caller's are %.300v", name, j.Headers, c.before)
		}
		if err := j.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
