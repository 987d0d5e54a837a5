package metrics

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/admission"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/rules"
)

// ruleBuckets are few because each rule has its own histogram.
var ruleBuckets = []float64{.0002, .0005, .001, .002, .005, .01, .05, .2, 1}

// Rules counts the decisions of rules where they are made: as the Observer of an Admission, or in appends to an engine
// that Over wraps. Keys are never labels.
type Rules struct {
	decisions, failed, errors, away, missing, full *prometheus.CounterVec
	latency                                        *prometheus.HistogramVec
	rules                                          *slots
	// gone counts missing rules. It is separate from rules because deleting a rule ends its series there.
	gone *slots
}

var _ admission.Observer = (*Rules)(nil)

// NewRules registers the metrics of rules. maxRules is the number of rules with series of their own; 0 is the default.
func NewRules(reg prometheus.Registerer, maxRules int) (*Rules, error) {
	m := &Rules{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_rule_decisions_total",
			Help: "Decisions of rules: allowed, refused, or shadowed (a refusal by a rule that only counts).",
		}, []string{"rule", "outcome"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_rule_failures_total", Help: "Takes that failed without a decision, by reason.",
		}, []string{"rule", "reason"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_rule_store_errors_total",
			Help: "Calls about a rule that the store did not answer, by reason, whatever decided instead.",
		}, []string{"rule", "reason"}),
		away: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_rule_away_total",
			Help: "Decisions made by a rule's away setting because the store was unavailable, by decision.",
		}, []string{"rule", "decided"}),
		missing: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_rule_missing_total",
			Help: "Jobs refused because their queue names a rule of another group that is missing or not usable for jobs.",
		}, []string{"rule"}),
		full: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_rule_full_total",
			Help: "Takes that rules refused, or would have, only because they held their maximum number of keys.",
		}, []string{"rule"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "penstock_rule_decision_seconds",
			Help:    "Duration of a store call that decides by a rule, with one or many takes, or of an append.",
			Buckets: ruleBuckets,
		}, []string{"rule", "by"}),
	}
	m.rules = newSlots(
		maxRules, kind{m.decisions.MetricVec, "allowed"}, kind{m.decisions.MetricVec, "refused"},
		kind{m.decisions.MetricVec, "shadowed"},
	)
	m.gone = newSlots(maxRules)
	return m, register(reg, m.decisions, m.failed, m.errors, m.away, m.missing, m.full, m.latency)
}

func (m *Rules) count(rule string, d *leaky.Decision, shadow bool, maxKeys int64) {
	if maxKeys > 0 {
		m.rules.addRare(rule, m.full, "", 1)
	}
	outcome := "refused"
	switch {
	case d.Allowed:
		outcome = "allowed"
	case shadow:
		outcome = "shadowed"
	}
	m.rules.add(rule, m.decisions, outcome, 1)
}

// Asked implements admission.Observer.
func (m *Rules) Asked(rule string, took time.Duration) {
	m.rules.observe(rule, m.latency, "take", took.Seconds())
}

// Failed implements admission.Observer.
func (m *Rules) Failed(rule string, err error) {
	reason := "unavailable"
	switch {
	case errors.Is(err, queue.ErrOutcomeUnknown):
		reason = "outcome_unknown"
	case errors.Is(err, queue.ErrStoreFull):
		reason = "full"
	case errors.Is(err, context.DeadlineExceeded):
		reason = "timeout"
	}
	m.rules.addKnown(rule, m.errors, reason, 1) // the rule may not exist
}

// Answered implements admission.Observer.
func (m *Rules) Answered(rule string, takes []rules.Take, answers []rules.Taken, err error) {
	if err != nil || len(answers) != len(takes) {
		if errors.Is(err, rules.ErrUnknown) {
			m.rules.forget(rule) // another process has deleted it
		}
		m.rules.addKnown(rule, m.failed, failedTake(err), float64(len(takes)))
		return
	}
	m.age()
	for i := range answers {
		a := &answers[i]
		switch {
		case a.Err != nil:
			m.rules.addKnown(rule, m.failed, failedTake(a.Err), 1)
		case takes[i].Op == rules.TakeNow:
			m.count(rule, &a.Decision, a.Shadow, a.MaxKeys)
		}
	}
}

// Away implements admission.Observer.
func (m *Rules) Away(rule, policy string, allowed, refused int) {
	if allowed > 0 {
		m.rules.addRare(rule, m.away, policy, float64(allowed))
	}
	if refused > 0 {
		if policy == rules.AwayShare {
			policy = "share_refused"
		}
		m.rules.addRare(rule, m.away, policy, float64(refused))
	}
}

// Missing implements admission.Observer. penstock_refused_total and the log name the queue.
func (m *Rules) Missing(_, rule string) {
	m.age()
	m.gone.addRare(rule, m.missing, "", 1)
}

func (m *Rules) age() {
	now := time.Now()
	m.rules.age(now)
	m.gone.age(now)
}

func failedTake(err error) string {
	var field *invalid.Error
	switch {
	case errors.As(err, &field):
		return "invalid"
	case errors.Is(err, rules.ErrUnknown):
		return "unknown_rule"
	case errors.Is(err, queue.ErrOutcomeUnknown):
		return "outcome_unknown"
	case errors.Is(err, queue.ErrUnavailable):
		return "unavailable"
	}
	return "failed"
}

// Over wraps an engine and counts the decisions of rules about the jobs appended to it.
func (m *Rules) Over(e queue.Engine) queue.Engine { return &countedEngine{e, m} }

type countedEngine struct {
	queue.Engine
	m *Rules
}

// Append implements queue.Appender.
func (a *countedEngine) Append(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	start := time.Now()
	answers, err := a.Engine.Append(ctx, jobs)
	a.m.judged(answers, time.Since(start))
	return answers, err
}

// Offer implements queue.Overflow.
func (a *countedEngine) Offer(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	start := time.Now()
	answers, err := a.Engine.Offer(ctx, jobs)
	a.m.judged(answers, time.Since(start))
	return answers, err
}

// judged counts the decisions of a call, and observes its duration once for each rule.
func (m *Rules) judged(answers []queue.Appended, took time.Duration) {
	var asked []string
	for i := range answers {
		for k := range answers[i].Rules {
			r := &answers[i].Rules[k]
			m.count(r.Rule, &r.Decision, r.Shadow, r.MaxKeys)
			if !slices.Contains(asked, r.Rule) {
				asked = append(asked, r.Rule)
				m.rules.observe(r.Rule, m.latency, "append", took.Seconds())
			}
		}
	}
	if asked != nil {
		m.age()
	}
}

// DeleteRule implements queue.Rules. A deleted rule's series end.
func (a *countedEngine) DeleteRule(ctx context.Context, name string, expect int64) error {
	err := a.Engine.DeleteRule(ctx, name, expect)
	if err == nil {
		a.m.rules.forget(name)
	}
	return err
}
