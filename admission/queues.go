package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/ruleset"
)

// ruleNames are the rules that the jobs of a queue are asked by, those that its parent names first, each once.
type ruleNames struct {
	own    []string // of the queue's group: the engine asks them
	others []string // of other groups
}

func (a *Admission) readQueue(ctx context.Context, name string) (ruleNames, error) {
	info, err := a.engine.Get(ctx, name)
	if err != nil {
		return ruleNames{}, err
	}
	var above []string
	if parent := names.Parent(name); parent != "" {
		p, err := a.engine.Get(ctx, parent)
		if err != nil && !errors.Is(err, queue.ErrUnknownQueue) {
			return ruleNames{}, err
		}
		above = p.Spec.Rules
	}
	n := ruleNames{own: ruleset.Names(name, above, info.Spec.Rules)}
	for _, rule := range slices.Concat(above, info.Spec.Rules) {
		if names.Group(rule) != names.Group(name) && !slices.Contains(n.others, rule) {
			n.others = append(n.others, rule)
		}
	}
	for _, rule := range n.own { // nobody asks them here until the store is away, and then it is too late to read them
		_, _ = a.rules.get(ctx, rule)
	}
	return n, nil
}

// ruleFilter chooses the rules that somebody asks.
type ruleFilter func(ruleNames) []string

func own(n ruleNames) []string    { return n.own }
func others(n ruleNames) []string { return n.others }

// What is the matter with a rule that no job can be asked by.
const (
	notThere = "is not there"
	ofPlaces = "is of concurrency, whose places no job gives back"
)

// ruleset returns the rules of a queue, nil if it has none. Errors: a *ruleset.Missing, queue.ErrUnknownQueue, why
// nothing is known of the queue or a rule.
func (a *Admission) ruleset(ctx context.Context, name string, some ruleFilter) (ruleset.Set, error) {
	n, err := a.queues.get(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("rules of queue %s: %w", name, err)
	}
	if len(some(n)) == 0 {
		return nil, nil
	}
	set := make(ruleset.Set, 0, len(some(n)))
	for _, rule := range some(n) {
		r, err := a.rules.get(ctx, rule)
		switch {
		case errors.Is(err, rules.ErrUnknown):
			return nil, &ruleset.Missing{Queue: name, Rule: rule, Reason: notThere}
		case err != nil:
			return nil, fmt.Errorf("rule %s: %w", rule, err)
		case r.Algorithm == leaky.AlgorithmConcurrency:
			return nil, &ruleset.Missing{Queue: name, Rule: rule, Reason: ofPlaces}
		}
		set = append(set, r.ParsedRule)
	}
	return set, nil
}
