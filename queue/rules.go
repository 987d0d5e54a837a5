package queue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/rules"
)

// Rules keeps rules, and what was taken under each of their keys.
type Rules interface {
	// PutRule creates a rule or changes it; see Specs.Put for expect. An equal rule changes nothing. What was
	// taken stays taken, as far as the new numbers know it; another algorithm begins anew. Errors also: an
	// *invalid.Error, ErrRevision.
	PutRule(ctx context.Context, r rules.Rule, expect int64) (PutResult, error)
	// Rule returns a rule. Errors also: rules.ErrUnknown.
	Rule(ctx context.Context, name string) (rules.Info, error)
	// ListRules returns up to limit rules in order of name, beginning behind after.
	ListRules(ctx context.Context, after string, limit int) ([]rules.Info, error)
	// DeleteRule removes a rule, and what was taken from it. Errors also: rules.ErrUnknown, ErrRevision, rules.ErrInUse.
	DeleteRule(ctx context.Context, name string, expect int64) error
	// ResetRule forgets all that was taken from a rule, under all keys. Errors also: rules.ErrUnknown.
	ResetRule(ctx context.Context, name string) error

	// Attend notes that a process takes part in admission, and returns how many did within AttendFor: among so many is
	// shared what a rule allows while the store is away. process is 1 to 64 visible ASCII characters.
	Attend(ctx context.Context, process string) (int, error)
}

// AttendFor is how long after its last Attend a process counts.
const AttendFor = 30 * time.Second

// Taker decides by the rules. Those that a queue's spec names, of its own group, are asked by Append and Offer as
// well, in the same step.
type Taker interface {
	// Take asks a rule, up to rules.MaxTakes times, each as if alone and in this order, and answers in the same order.
	// After ErrOutcomeUnknown something may have been taken: repeating it takes again. While the rule holds as many keys
	// as it may (see rules.Rule.MaxKeys), rules.TakeNow and rules.TakePeek under another are refused. What its Action
	// means is the caller's business; of a shadow the answers say so. rules.TakeAnew, and rules.TakeBack without a lease,
	// write an entry of the audit log in their own step, if the context has an audit.Actor. Errors also:
	// rules.ErrUnknown, an *invalid.Error if there are too many.
	Take(ctx context.Context, rule string, takes []rules.Take) ([]rules.Taken, error)
}

// MaxSpecRules is how many rules a queue may name; its parent's come on top.
const MaxSpecRules = 8

func validateRuleNames(names []string) error {
	if len(names) > MaxSpecRules {
		return invalid.Errorf("rules", "", "are %d, at most %d can be asked", len(names), MaxSpecRules)
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
