package queue

import (
	"slices"

	"github.com/penstock/penstock/leaky"
)

// Ruleset is what engines ask about a job: the rules of the group that the queue's parent and the queue itself name,
// in this order, each once. It is made of rules as they are stored, and shared by all jobs of a queue.
type Ruleset []ParsedRule

// ParsedRule is a rule with its template read.
type ParsedRule struct {
	Rule
	Template KeyTemplate
}

// RuleNames names the rules of its own group that a queue's jobs are asked by, with those of its parent first.
func RuleNames(queue string, parent, own []string) []string {
	var names []string
	for _, name := range slices.Concat(parent, own) {
		if Group(name) == Group(queue) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// RuleAsk is what a job asks one rule.
type RuleAsk struct {
	Rule    *Rule
	Key     string
	Limiter leaky.Limiter
}

// Asks returns what a normalized, valid job asks each rule. Its error is a *FieldError: the job lacks what a rule
// counts by, or costs more than one can ever let through. A rule that only shadows refuses nothing: it is then not
// asked.
func (s Ruleset) Asks(j *Job) ([]RuleAsk, error) {
	asks := make([]RuleAsk, 0, len(s))
	for i := range s {
		switch ask, err := s[i].ask(j); {
		case err == nil:
			asks = append(asks, ask)
		case s[i].Action != Shadow:
			return nil, err
		}
	}
	return asks, nil
}

func (r *ParsedRule) ask(j *Job) (RuleAsk, error) {
	key, err := r.Template.Expand(j)
	if err != nil {
		return RuleAsk{}, err
	}
	l, err := r.Of(key).Limiter(r.Algorithm)
	if err != nil {
		return RuleAsk{}, err
	}
	if j.Cost > l.Limit() {
		return RuleAsk{}, CannotPass(r.Name, j.Cost, l.Limit())
	}
	return RuleAsk{&r.Rule, key, l}, nil
}
