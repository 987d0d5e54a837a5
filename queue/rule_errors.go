package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock/penstock/leaky"
)

// What engines say of rules, and of queues that ask them.

// NoSuchRule is the *FieldError of the i-th of a spec's rules, which is of the queue's group and does not exist.
func NoSuchRule(i int, name string) error {
	return fieldErr(fmt.Sprintf("rules.%d", i), name, "is no rule; put it first")
}

// NoQueueAsks is the *FieldError of the i-th of a spec's rules, which is of concurrency.
func NoQueueAsks(i int, name string) error {
	return fieldErr(fmt.Sprintf("rules.%d", i), name, "is a rule of concurrency: a queue cannot ask it, for its jobs free no place")
}

// CheckOtherRules checks the rules of other groups that a spec names, before it is put: the engine does not look at them. They may be
// gone later.
func CheckOtherRules(ctx context.Context, engine interface {
	Rule(ctx context.Context, name string) (RuleInfo, error)
}, spec *Spec,
) error {
	for i, name := range spec.Rules {
		if Group(name) == Group(spec.Name) {
			continue
		}
		info, err := engine.Rule(ctx, name)
		switch {
		case errors.Is(err, ErrUnknownRule):
			return NoSuchRule(i, name)
		case err != nil:
			return err
		case info.Algorithm == leaky.AlgorithmConcurrency:
			return NoQueueAsks(i, name)
		}
	}
	return nil
}

// AskedByQueues is the *FieldError of a rule that would become one of concurrency while queues ask it.
func AskedByQueues(rule string) error {
	return fieldErr("algorithm", string(leaky.AlgorithmConcurrency), "does not do for %s, which queues ask: their jobs free no place; take it out of their rules first", rule)
}

// ValidateProcess checks the name under which a process attends.
func ValidateProcess(process string) error {
	ok := process != "" && len(process) <= 64
	for i := 0; i < len(process); i++ {
		ok = ok && process[i] > ' ' && process[i] <= '~'
	}
	if !ok {
		return fieldErr("process", process, "must be 1 to 64 visible ASCII characters")
	}
	return nil
}
