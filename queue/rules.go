package queue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/rules"
)

// Rules stores rules and the tallies of their keys.
type Rules interface {
	// PutRule creates or changes a rule; see Specs.Put for expect. An equal rule changes nothing. Earlier takes still
	// count as far as the new numbers allow; a different algorithm starts anew. Errors also: an *invalid.Error,
	// ErrRevision.
	PutRule(ctx context.Context, r rules.Rule, expect int64) (PutResult, error)
	// Rule returns a rule. Errors also: rules.ErrUnknown.
	Rule(ctx context.Context, name string) (rules.Info, error)
	// ListRules returns up to limit rules, sorted by name, starting after the name given.
	ListRules(ctx context.Context, after string, limit int) ([]rules.Info, error)
	// DeleteRule deletes a rule and its tallies. A repetition returns rules.ErrUnknown; with AnyRevision it deletes a rule
	// of the name that was created meanwhile. Errors also: rules.ErrUnknown, ErrRevision, rules.ErrInUse.
	DeleteRule(ctx context.Context, name string, expect int64) error
	// ResetRule clears the tallies of a rule, under all keys. A repetition also clears what was taken meanwhile. Errors
	// also: rules.ErrUnknown.
	ResetRule(ctx context.Context, name string) error

	// Attend registers a process for admission and returns how many registered within AttendFor. They divide what a
	// rule allows among themselves while the store cannot be reached. process is 1 to 64 visible ASCII characters. It may
	// be repeated: each process counts once. Errors also: an *invalid.Error.
	Attend(ctx context.Context, process string) (int, error)
}

// AttendFor is how long a process counts after its last Attend.
const AttendFor = 30 * time.Second

// Taker decides by the rules. Append and Offer ask those rules of a queue's spec that belong to its own group, in the
// same step.
type Taker interface {
	// Take asks a rule up to rules.MaxTakes times, each take on its own and in order, and answers in the same order. After
	// ErrOutcomeUnknown some takes may have counted: repeating the call counts again. While the rule has its maximum of
	// keys (rules.Rule.MaxKeys), rules.TakeNow and rules.TakePeek of another key are refused. Applying the rule's Action
	// is up to the caller; the answers say if the rule is a shadow. If the context has an audit.Actor, rules.TakeAnew, and
	// rules.TakeBack without a lease, write an audit log entry in the same step. Errors also: rules.ErrUnknown, and an
	// *invalid.Error if there are too many takes.
	Take(ctx context.Context, rule string, takes []rules.Take) ([]rules.Taken, error)
}

// MaxSpecRules is the maximum number of rules that a queue may name, not counting its parent's.
const MaxSpecRules = 8

func validateRuleNames(names []string) error {
	if len(names) > MaxSpecRules {
		return invalid.Errorf("rules", "", "has %d entries, the limit is %d", len(names), MaxSpecRules)
	}
	for i, name := range names {
		if err := rules.ValidateName(name); err != nil {
			return invalid.Errorf(fmt.Sprintf("rules.%d", i), name, "is not the name of a rule")
		}
		if slices.Contains(names[:i], name) {
			return invalid.Errorf(fmt.Sprintf("rules.%d", i), name, "is given twice")
		}
	}
	return nil
}
