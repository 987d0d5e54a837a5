package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/deferred"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/ruleset"
)

// latencyBuckets range from a round trip to Redis, 0.1 ms, to its timeouts.
var latencyBuckets = []float64{.0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .25, .5, 1, 2.5, 5}

// Engine wraps an engine and counts what is appended to it.
type Engine struct {
	queue.Engine
	appended, refused *prometheus.CounterVec
	replayed          *prometheus.CounterVec
	latency           prometheus.Histogram
	queues            *slots
}

// NewEngine wraps e. maxQueues is the number of queues with series of their own; 0 is the default.
func NewEngine(e queue.Engine, reg prometheus.Registerer, maxQueues int) (*Engine, error) {
	m := &Engine{
		Engine: e,
		appended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_appended_total", Help: "Jobs accepted, or already present (outcome duplicate).",
		}, []string{"queue", "outcome"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_refused_total", Help: "Jobs refused, by reason.",
		}, []string{"queue", "reason"}),
		replayed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_replayed_total", Help: "Dead jobs for which a replay was requested, by outcome.",
		}, []string{"queue", "outcome"}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "penstock_append_seconds", Help: "Duration of an append call, with one or many jobs.",
			Buckets: latencyBuckets,
		}),
	}
	m.queues = newSlots(maxQueues, kind{m.appended.MetricVec, "accepted"}, kind{m.appended.MetricVec, "duplicate"},
		kind{m.refused.MetricVec, "conflict"}, kind{m.refused.MetricVec, "full"}, kind{m.refused.MetricVec, "invalid"},
		kind{m.refused.MetricVec, "failed"})
	return m, register(reg, m.appended, m.refused, m.replayed, m.latency)
}

// Append implements queue.Appender.
func (m *Engine) Append(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	start := time.Now()
	answers, err := m.Engine.Append(ctx, jobs)
	observe(m.latency, time.Since(start).Seconds(), exemplarOf(ctx))
	if len(answers) != len(jobs) { // the whole call failed
		m.queues.addKnown(Other, m.refused, "failed", float64(len(jobs)))
		return answers, err
	}
	m.queues.age(start)
	for i := range answers {
		m.count(jobs[i].Queue, &answers[i])
	}
	return answers, err
}

// count counts an outcome. Queues get a slot only if they are known to exist, so that requests for unknown queues
// cannot use up the slots.
func (m *Engine) count(name string, a *queue.Appended) {
	outcome := a.Outcome.String()
	switch {
	case a.Outcome == queue.Accepted && a.State == queue.Deferred:
		m.queues.add(name, m.appended, a.State.String(), 1)
	case a.Outcome == queue.Accepted, a.Outcome == queue.Duplicate:
		m.queues.add(name, m.appended, outcome, 1)
	case a.Outcome == queue.UnknownQueue:
		m.queues.addKnown(Other, m.refused, outcome, 1)
	case a.Outcome == queue.Failed && errors.Is(a.Err, deferred.ErrUnavailable):
		m.queues.addKnown(name, m.refused, "overflow_unavailable", 1)
	case a.Outcome == queue.Failed && errors.As(a.Err, new(*ruleset.Missing)):
		m.queues.addRare(name, m.refused, "rule_missing", 1)
	case a.Outcome.Refusal().Again() && a.Outcome != queue.LimitReached: // no room
		m.queues.addRare(name, m.refused, outcome, 1)
	case a.Outcome == queue.Invalid, a.Outcome == queue.Failed:
		m.queues.addKnown(name, m.refused, outcome, 1)
	default:
		m.queues.add(name, m.refused, outcome, 1)
	}
}

// Replay implements queue.Jobs.
func (m *Engine) Replay(ctx context.Context, name string, ids []string) ([]queue.ReplayOutcome, error) {
	outcomes, err := m.Engine.Replay(ctx, name, ids)
	for _, o := range outcomes {
		if o != queue.NotDead {
			m.queues.add(name, m.replayed, o.String(), 1)
		}
	}
	return outcomes, err
}

// Delete implements queue.Specs. A deleted queue's series end.
func (m *Engine) Delete(ctx context.Context, name string, expect int64, force bool) error {
	err := m.Engine.Delete(ctx, name, expect, force)
	if err == nil {
		m.queues.forget(name)
	}
	return err
}
