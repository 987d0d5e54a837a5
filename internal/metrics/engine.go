package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/queue"
)

// Latencies from a tenth of a millisecond, a round trip to Redis, to its timeouts.
var latencyBuckets = []float64{.0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .25, .5, 1, 2.5, 5}

// Engine wraps an engine and counts what is appended to it.
type Engine struct {
	queue.Engine
	appended, refused *prometheus.CounterVec
	latency           prometheus.Histogram
	queues            *slots[*arrivals]
}

// arrivals are the counters of one queue.
type arrivals struct {
	accepted, duplicate, conflict, full, invalid, failed prometheus.Counter
}

// NewEngine wraps e; maxQueues is how many queues get series of their own, 0 for
// the default.
func NewEngine(e queue.Engine, reg prometheus.Registerer, maxQueues int) (*Engine, error) {
	m := &Engine{
		Engine: e,
		appended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_appended_total", Help: "Jobs that were accepted, or found to be in already (outcome duplicate).",
		}, []string{"queue", "outcome"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_refused_total", Help: "Jobs that were not accepted, by reason.",
		}, []string{"queue", "reason"}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "penstock_append_seconds", Help: "How long an append took, one call of one or many jobs.", Buckets: latencyBuckets,
		}),
	}
	m.queues = newSlots(maxQueues, func(label string) *arrivals {
		return &arrivals{
			accepted:  m.appended.WithLabelValues(label, "accepted"),
			duplicate: m.appended.WithLabelValues(label, "duplicate"),
			conflict:  m.refused.WithLabelValues(label, "conflict"),
			full:      m.refused.WithLabelValues(label, "full"),
			invalid:   m.refused.WithLabelValues(label, "invalid"),
			failed:    m.refused.WithLabelValues(label, "failed"),
		}
	})
	return m, register(reg, m.appended, m.refused, m.latency)
}

// Append implements queue.Appender.
func (m *Engine) Append(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	start := time.Now()
	answers, err := m.Engine.Append(ctx, jobs)
	m.latency.Observe(time.Since(start).Seconds())
	if len(answers) != len(jobs) { // nothing could be decided
		m.refused.WithLabelValues(Other, "failed").Add(float64(len(jobs)))
		return answers, err
	}
	for i := range answers {
		m.count(jobs[i].Queue, answers[i].Outcome)
	}
	return answers, err
}

// count gives a queue a slot only once it is known to exist, so that nobody can
// use them up by asking for queues that do not.
func (m *Engine) count(name string, outcome queue.AppendOutcome) {
	switch outcome {
	case queue.Accepted:
		m.queues.of(name).accepted.Inc()
	case queue.Duplicate:
		m.queues.of(name).duplicate.Inc()
	case queue.Conflict:
		m.queues.of(name).conflict.Inc()
	case queue.Full:
		m.queues.of(name).full.Inc()
	case queue.UnknownQueue:
		m.refused.WithLabelValues(Other, "unknown_queue").Inc()
	case queue.Invalid, queue.Failed:
		reason := outcome.String()
		if v, ok := m.queues.named.Load(name); ok {
			if outcome == queue.Invalid {
				v.(*arrivals).invalid.Inc()
			} else {
				v.(*arrivals).failed.Inc()
			}
			return
		}
		m.refused.WithLabelValues(Other, reason).Inc()
	}
}

// Delete implements queue.Specs. A deleted queue's series end.
func (m *Engine) Delete(ctx context.Context, name string, expect int64, force bool) error {
	err := m.Engine.Delete(ctx, name, expect, force)
	if err == nil && m.queues.forget(name) {
		m.appended.DeletePartialMatch(prometheus.Labels{"queue": name})
		m.refused.DeletePartialMatch(prometheus.Labels{"queue": name})
	}
	return err
}
