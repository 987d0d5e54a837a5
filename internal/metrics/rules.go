package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// said counts what rules say, to appends and to those who ask them by name. A key is never a label.
type said struct {
	decisions, failed *prometheus.CounterVec
	latency           prometheus.Histogram
	rules             *slots
}

func newSaid(maxRules int) *said {
	s := &said{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_rule_decisions_total", Help: "What rules said: allowed, refused, or shadowed, which a rule that only counts would have refused.",
		}, []string{"rule", "outcome"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_rule_failures_total", Help: "Questions to rules that were not answered, by reason.",
		}, []string{"rule", "reason"}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "penstock_rule_take_seconds", Help: "How long a rule took to answer, one call of one or many questions.", Buckets: latencyBuckets,
		}),
	}
	s.rules = newSlots(maxRules, kind{s.decisions, "allowed"}, kind{s.decisions, "refused"}, kind{s.decisions, "shadowed"})
	return s
}

func (s *said) count(rule string, d *leaky.Decision, shadow bool) {
	outcome := "refused"
	switch {
	case d.Allowed:
		outcome = "allowed"
	case shadow:
		outcome = "shadowed"
	}
	s.rules.add(rule, s.decisions, outcome, 1)
}

// Take implements queue.Rules.
func (m *Engine) Take(ctx context.Context, rule string, takes []queue.Take) ([]queue.Taken, error) {
	s, start := m.said, time.Now()
	answers, err := m.Engine.Take(ctx, rule, takes)
	s.latency.Observe(time.Since(start).Seconds())
	if err != nil || len(answers) != len(takes) {
		if errors.Is(err, queue.ErrUnknownRule) {
			rule = Other
		}
		s.rules.addKnown(rule, s.failed, failedTake(err), float64(len(takes)))
		return answers, err
	}
	s.rules.age(start)
	for i := range answers {
		a := &answers[i]
		switch {
		case a.Err != nil:
			s.rules.addKnown(rule, s.failed, failedTake(a.Err), 1)
		case takes[i].Op == queue.TakeNow:
			s.count(rule, &a.Decision, a.Shadow)
		}
	}
	return answers, err
}

func failedTake(err error) string {
	var field *queue.FieldError
	switch {
	case errors.As(err, &field):
		return "invalid"
	case errors.Is(err, queue.ErrUnknownRule):
		return "unknown_rule"
	case errors.Is(err, queue.ErrOutcomeUnknown):
		return "outcome_unknown"
	case errors.Is(err, queue.ErrUnavailable):
		return "unavailable"
	}
	return "failed"
}

// DeleteRule implements queue.Rules. A deleted rule's series end.
func (m *Engine) DeleteRule(ctx context.Context, name string, expect int64) error {
	err := m.Engine.DeleteRule(ctx, name, expect)
	if err == nil {
		m.said.rules.forget(name)
	}
	return err
}
