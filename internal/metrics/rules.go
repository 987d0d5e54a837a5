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

// Latencies of rules, which each of them has: so there are fewer of these.
var ruleBuckets = []float64{.0002, .0005, .001, .002, .005, .01, .05, .2, 1}

// Rules counts what rules are asked and what they say, each where it is decided: by an Admission, of which it is the
// Observer, or by an engine that Over wraps, with an append. A key is never a label.
type Rules struct {
	decisions, failed, errors, away, missing, full *prometheus.CounterVec
	latency                                        *prometheus.HistogramVec
	rules                                          *slots
	// gone are rules that are missing: who asks for one by name, or deletes it, does not end what is counted of it.
	gone *slots
}

var _ admission.Observer = (*Rules)(nil)

// NewRules registers the metrics of rules; maxRules is how many get series of their own, 0 for the default.
func NewRules(reg prometheus.Registerer, maxRules int) (*Rules, error) {
	m := &Rules{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_rule_decisions_total",
			Help: "What rules said: allowed, refused, or shadowed, which a rule that only counts would have refused.",
		}, []string{"rule", "outcome"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_rule_failures_total", Help: "Questions to rules that were not answered, by reason.",
		}, []string{"rule", "reason"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_rule_store_errors_total",
			Help: "Calls about a rule that the store did not answer, whatever then decided, by reason.",
		}, []string{"rule", "reason"}),
		away: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_rule_away_total",
			Help: "What a rule's away decided because the store could not be asked, by what it said.",
		}, []string{"rule", "decided"}),
		missing: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_rule_missing_total",
			Help: "Jobs that were not taken because their queue names a rule of another group that is gone, or cannot be " +
				"asked by jobs.",
		}, []string{"rule"}),
		full: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_rule_full_total",
			Help: "What rules refused, or would have, only because they held as many keys as they may.",
		}, []string{"rule"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "penstock_rule_decision_seconds",
			Help:    "How long the store took to decide by a rule, one call of one or many questions: a take, or an append.",
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
	m.rules.addKnown(rule, m.errors, reason, 1) // it may be no rule at all
}

// Answered implements admission.Observer.
func (m *Rules) Answered(rule string, takes []rules.Take, answers []rules.Taken, err error) {
	if err != nil || len(answers) != len(takes) {
		if errors.Is(err, rules.ErrUnknown) {
			m.rules.forget(rule) // somebody else has deleted it
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

// Missing implements admission.Observer. Which queue it was penstock_refused_total and the log say.
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

// Over wraps an engine, and counts what rules say of the jobs that are appended to it.
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

// judged counts what rules said of the jobs of a call, and that it took so long, once of each rule.
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
