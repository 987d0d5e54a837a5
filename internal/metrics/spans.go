package metrics

import "github.com/prometheus/client_golang/prometheus"

// Spans counts exported trace spans.
type Spans struct{ sent, failed, dropped prometheus.Counter }

// NewSpans registers the counters.
func NewSpans(reg prometheus.Registerer) (*Spans, error) {
	spans := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "penstock_spans_total",
		Help: "Trace spans: sent; failed, refused by the collector; dropped, because too many were waiting.",
	}, []string{"result"})
	return &Spans{
		sent: spans.WithLabelValues("sent"), failed: spans.WithLabelValues("failed"),
		dropped: spans.WithLabelValues("dropped"),
	}, register(reg, spans)
}

// Sent counts spans that the collector accepted.
func (s *Spans) Sent(n int) { s.sent.Add(float64(n)) }

// Failed counts spans that the collector did not accept.
func (s *Spans) Failed(n int) { s.failed.Add(float64(n)) }

// Dropped counts a span that was not sent.
func (s *Spans) Dropped() { s.dropped.Inc() }
