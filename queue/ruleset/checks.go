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

// Errors and checks that engines share for rules, and for the queues that name them.

// NoSuch returns the *invalid.Error of a spec's i-th rule, which does not exist.
func NoSuch(i int, name string) error {
	return invalid.Errorf(fmt.Sprintf("rules.%d", i), name, "is not a rule; create it first")
}

// NoQueueAsks returns the *invalid.Error of a spec's i-th rule, whose algorithm no queue can use.
func NoQueueAsks(i int, name string) error {
	return invalid.Errorf(
		fmt.Sprintf("rules.%d", i), name, "is a rule of concurrency, whose places jobs would never give back, or a budget, "+
			"which jobs would never correct; a queue can use neither. For a budget of jobs, use a limit with a unit",
	)
}

// Missing says why a queue accepts no jobs: it or its parent names a rule of another group that can no longer be
// asked. The jobs are not at fault: they can be sent again once an operator has created the rule or removed it from the
// queue's rules.
type Missing struct {
	Queue, Rule string
	Reason      string // what is wrong with the rule
}

func (e *Missing) Error() string {
	return fmt.Sprintf(
		"the queue %s asks the rule %s, which %s: create that rule, or remove it from the rules of the queue or its "+
			"parent",
		e.Queue, e.Rule, e.Reason,
	)
}

// askedPage is how many queues AskedBy reads at a time.
const askedPage = 200

// AskedBy returns up to most queues of any group that name a rule, sorted by name. It reads them page by page, and may
// miss a queue that changes meanwhile.
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

// CheckPlaces checks a rule before it is put: a rule that queues of any group name cannot become one of concurrency, or
// a budget.
// The engine only checks the rule's own group.
func CheckPlaces(ctx context.Context, engine interface {
	queue.Specs
	queue.Rules
}, rule *rules.Rule,
) error {
	if rules.ForQueues(rule.Algorithm) {
		return nil
	}
	there, err := engine.Rule(ctx, rule.Name)
	if err == nil && there.Algorithm == rule.Algorithm || err != nil && !errors.Is(err, rules.ErrUnknown) {
		return err
	}
	asking, err := AskedBy(ctx, engine, rule.Name, 1)
	if err == nil && len(asking) > 0 {
		err = AskedByQueues(rule.Name, rule.Algorithm)
	}
	return err
}

// CheckOthers checks the rules of other groups that a spec names, before it is put; the engine does not. They may be
// deleted later.
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
		case !rules.ForQueues(info.Algorithm):
			return NoQueueAsks(i, name)
		}
	}
	return nil
}

// AskedByQueues returns the *invalid.Error of a rule that would get an algorithm that no queue can use while queues
// use it.
func AskedByQueues(rule string, a leaky.Algorithm) error {
	return invalid.Errorf(
		"algorithm", string(a),
		"is impossible for %s, which queues use: their jobs never give a place back, and never correct a budget; remove "+
			"the rule from the queues first",
		rule,
	)
}

// ValidateProcess checks the name of a process for Attend.
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

// CheckTakes checks the number of takes. Its error is an *invalid.Error.
func CheckTakes(n int) error {
	if n > rules.MaxTakes {
		return invalid.Errorf("takes", "", "has %d entries, the limit is %d", n, rules.MaxTakes)
	}
	return nil
}
