package metrics

import "github.com/prometheus/client_golang/prometheus"

// Spans counts what became of the spans of traces.
type Spans struct{ sent, failed, dropped prometheus.Counter }

// NewSpans registers them.
func NewSpans(reg prometheus.Registerer) (*Spans, error) {
	spans := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "penstock_spans_total",
		Help: "Spans of traces: sent; failed, when their receiver did not take them; dropped, when too many waited for it.",
	}, []string{"result"})
	return &Spans{
		sent: spans.WithLabelValues("sent"), failed: spans.WithLabelValues("failed"),
		dropped: spans.WithLabelValues("dropped"),
	}, register(reg, spans)
}

// Sent counts spans that the receiver took.
func (s *Spans) Sent(n int) { s.sent.Add(float64(n)) }

// Failed counts spans that it did not take.
func (s *Spans) Failed(n int) { s.failed.Add(float64(n)) }

// Dropped counts one that was not even tried.
func (s *Spans) Dropped() { s.dropped.Inc() }
