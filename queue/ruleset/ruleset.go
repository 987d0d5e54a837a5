// Package ruleset connects rules to queues: which rules a job is checked against, and which rules a queue cannot use.
package ruleset

import (
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/rules"
)

// Set has the rules that engines ask about a job: those of its group that the parent and the queue name, in this
// order, each once. It is built from the stored rules and shared by all jobs of a queue.
type Set []ParsedRule

// ParsedRule is a rule with its template parsed.
type ParsedRule struct {
	rules.Rule
	Template rules.Template
}

// Names returns the rules of a queue's own group that its jobs are checked against, the parent's first.
func Names(name string, parent, own []string) []string {
	var list []string
	for _, rule := range slices.Concat(parent, own) {
		if names.Group(rule) == names.Group(name) && !slices.Contains(list, rule) {
			list = append(list, rule)
		}
	}
	return list
}

// Ask is what a job asks one rule.
type Ask struct {
	Rule    *rules.Rule
	Key     string
	Limiter leaky.Limiter
}

// Asks returns what a normalized, valid job asks each rule. Its error is an *invalid.Error: the job lacks the field a
// rule counts by, or costs more than the rule can ever allow. A shadow rule refuses nothing, so it is skipped instead.
func (s Set) Asks(j *queue.Job) ([]Ask, error) {
	asks := make([]Ask, 0, len(s))
	for i := range s {
		switch ask, err := s[i].ask(j); {
		case err == nil:
			asks = append(asks, ask)
		case s[i].Action != rules.Shadow:
			return nil, err
		}
	}
	return asks, nil
}

func (r *ParsedRule) ask(j *queue.Job) (Ask, error) {
	key, err := r.Template.Expand(j.Fields())
	if err != nil {
		return Ask{}, err
	}
	l, err := r.Of(key).Limiter(r.Algorithm)
	if err != nil {
		return Ask{}, err
	}
	if j.Cost > l.Limit() {
		return Ask{}, rules.CannotPass("cost", r.Name, j.Cost, l.Limit())
	}
	return Ask{&r.Rule, key, l}, nil
}
