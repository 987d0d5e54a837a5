package queue

import (
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
