package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/ruleset"
)

// ruleNames has the rules of a queue's jobs, the parent's first, each once.
type ruleNames struct {
	own    []string // of the queue's group; the engine asks them
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
	for _, rule := range n.own { // needed here while the store is away, when it is too late to read them
		_, _ = a.rules.get(ctx, rule)
	}
	return n, nil
}

// ruleFilter selects some of a queue's rules.
type ruleFilter func(ruleNames) []string

func own(n ruleNames) []string    { return n.own }
func others(n ruleNames) []string { return n.others }

// What is wrong with a rule that cannot be asked.
const (
	notThere = "does not exist"
	ofPlaces = "is a concurrency rule or a budget, which jobs never give back or correct"
)

// ruleset returns the rules of a queue, or nil. Errors: a *ruleset.Missing, queue.ErrUnknownQueue, or why the queue or
// a rule is unknown.
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
		case !rules.ForQueues(r.Algorithm):
			return nil, &ruleset.Missing{Queue: name, Rule: rule, Reason: ofPlaces}
		}
		set = append(set, r.ParsedRule)
	}
	return set, nil
}
