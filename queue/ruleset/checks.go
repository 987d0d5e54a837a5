package ruleset

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/rules"
)

// What engines say of rules, and of queues that ask them.

// NoSuch is the *invalid.Error of the i-th of a spec's rules, which is of the queue's group and does not exist.
func NoSuch(i int, name string) error {
	return invalid.Errorf(fmt.Sprintf("rules.%d", i), name, "is no rule; put it first")
}

// NoQueueAsks is the *invalid.Error of the i-th of a spec's rules, which is of concurrency.
func NoQueueAsks(i int, name string) error {
	return invalid.Errorf(
		fmt.Sprintf("rules.%d", i), name, "is a rule of concurrency: a queue cannot ask it, for its jobs free no place",
	)
}

// Missing is why no job of a queue is taken: it, or its parent, names a rule of another group that cannot be
// asked by now. No job is at fault, and each may be sent again: it is for a person to put the rule, or to take it out
// of the rules of the queue.
type Missing struct {
	Queue, Rule string
	Reason      string // what is the matter with the rule
}

func (e *Missing) Error() string {
	return fmt.Sprintf(
		"the queue %s asks the rule %s, which %s: put that rule, or take it out of the rules of the queue or its "+
			"parent",
		e.Queue, e.Rule, e.Reason,
	)
}

// askedPage is how many queues are looked at at a time.
const askedPage = 200

// AskedBy returns up to most of the queues that name a rule, of all groups, in order of name. They are read page by
// page: one that comes to name it meanwhile may be left out.
func AskedBy(ctx context.Context, engine queue.Specs, rule string, most int) ([]string, error) {
	var queues []string
	for after := ""; ; {
		page, err := engine.List(ctx, after, askedPage)
		if err != nil {
			return nil, err
		}
		for i := range page {
			if slices.Contains(page[i].Spec.Rules, rule) {
				if queues = append(queues, page[i].Spec.Name); len(queues) == most {
					return queues, nil
				}
			}
		}
		if len(page) < askedPage {
			return queues, nil
		}
		after = page[len(page)-1].Spec.Name
	}
}

// CheckPlaces checks a rule before it is put: it cannot become one of concurrency while queues of any group name it.
// The engine looks at those of its own group alone.
func CheckPlaces(ctx context.Context, engine interface {
	queue.Specs
	queue.Rules
}, rule *rules.Rule,
) error {
	if rule.Algorithm != leaky.AlgorithmConcurrency {
		return nil
	}
	there, err := engine.Rule(ctx, rule.Name)
	if err == nil && there.Algorithm == rule.Algorithm || err != nil && !errors.Is(err, rules.ErrUnknown) {
		return err
	}
	asking, err := AskedBy(ctx, engine, rule.Name, 1)
	if err == nil && len(asking) > 0 {
		err = AskedByQueues(rule.Name)
	}
	return err
}

// CheckOthers checks the rules of other groups that a spec names, before it is put: the engine does not look at
// them. They may be gone later.
func CheckOthers(ctx context.Context, engine queue.Rules, spec *queue.Spec) error {
	for i, name := range spec.Rules {
		if names.Group(name) == names.Group(spec.Name) {
			continue
		}
		info, err := engine.Rule(ctx, name)
		switch {
		case errors.Is(err, rules.ErrUnknown):
			return NoSuch(i, name)
		case err != nil:
			return err
		case info.Algorithm == leaky.AlgorithmConcurrency:
			return NoQueueAsks(i, name)
		}
	}
	return nil
}

// AskedByQueues is the *invalid.Error of a rule that would become one of concurrency while queues ask it.
func AskedByQueues(rule string) error {
	return invalid.Errorf(
		"algorithm", string(leaky.AlgorithmConcurrency),
		"does not do for %s, which queues ask: their jobs free no place; take it out of their rules first", rule,
	)
}

// ValidateProcess checks the name under which a process attends.
func ValidateProcess(process string) error {
	ok := process != "" && len(process) <= 64
	for i := 0; i < len(process); i++ {
		ok = ok && process[i] > ' ' && process[i] <= '~'
	}
	if !ok {
		return invalid.Errorf("process", process, "must be 1 to 64 visible ASCII characters")
	}
	return nil
}

// CheckTakes checks how many questions there are. Its error is an *invalid.Error.
func CheckTakes(n int) error {
	if n > rules.MaxTakes {
		return invalid.Errorf("takes", "", "are %d, at most %d can be asked at once", n, rules.MaxTakes)
	}
	return nil
}
