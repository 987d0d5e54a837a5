package queue

import (
	"context"
	"time"

	"github.com/penstock/penstock/leaky"
)

// Rules keeps rules, and what was taken under each of their keys.
type Rules interface {
	// PutRule creates a rule or changes it; see Specs.Put for expect. An equal rule changes nothing. What was
	// taken stays taken, as far as the new numbers know it; another algorithm begins anew. Errors also: a
	// *FieldError, ErrRevision.
	PutRule(ctx context.Context, r Rule, expect int64) (PutResult, error)
	// Rule returns a rule. Errors also: ErrUnknownRule.
	Rule(ctx context.Context, name string) (RuleInfo, error)
	// ListRules returns up to limit rules in order of name, beginning behind after.
	ListRules(ctx context.Context, after string, limit int) ([]RuleInfo, error)
	// DeleteRule removes a rule, and what was taken from it. Errors also: ErrUnknownRule, ErrRevision, ErrRuleInUse.
	DeleteRule(ctx context.Context, name string, expect int64) error
	// ResetRule forgets all that was taken from a rule, under all keys. Errors also: ErrUnknownRule.
	ResetRule(ctx context.Context, name string) error

	// Attend notes that a process takes part in admission, and returns how many did within AttendFor: among so many
	// is shared what a rule allows while the store is away. process is 1 to 64 visible ASCII characters.
	Attend(ctx context.Context, process string) (int, error)
}

// Taker decides by the rules. Those that a queue's spec names, of its own group, are asked by Append and Offer as
// well, in the same step.
type Taker interface {
	// Take asks a rule, up to MaxTakes times, each as if alone and in this order, and answers in the same order. After
	// ErrOutcomeUnknown something may have been taken: repeating it takes again. While the rule holds as many keys as it
	// may (see Rule.MaxKeys), TakeNow and TakePeek under another are refused. What its Action means is the caller's
	// business; of a shadow the answers say so. TakeAnew, and TakeBack without a lease, write an entry of the audit log in
	// their own step, if the context has an Actor. Errors also: ErrUnknownRule, a *FieldError if there are too many.
	Take(ctx context.Context, rule string, takes []Take) ([]Taken, error)
}

// AttendFor is how long after its last Attend a process counts.
const AttendFor = 30 * time.Second

// RuleInfo is a rule as it stands.
type RuleInfo struct {
	Rule
	Revision int64
	// Queues names the queues of its group that ask it, in order of name.
	Queues []string
	// Keys is about how many keys it holds, beside those with overrides: some of them may have expired since they
	// were counted.
	Keys int64
}

// TakeOp is what is asked of a rule.
type TakeOp uint8

// What may be asked of a rule.
const (
	TakeNow  TakeOp = iota // take, if it is allowed
	TakePeek               // say what TakeNow would; nothing is taken
	TakeBack               // give back what was taken and not used; never more than was taken
	TakeAnew               // forget what was taken under the key
)

func (o TakeOp) String() string { return [...]string{"take", "peek", "refund", "reset"}[o] }

// Take is one question to a rule.
type Take struct {
	Op  TakeOp
	Key string
	// Cost is how much; 0 means 1.
	Cost int64
	// Lease, of concurrency, names a place: taken again it is renewed. TakeNow without one makes a name, TakePeek
	// asks for a place that nobody has; TakeBack needs it.
	Lease string
}

// Taken is the answer to one question.
type Taken struct {
	leaky.Decision
	// Shadow says that the rule refuses nothing, whatever Allowed says.
	Shadow bool
	// Away is the rule's Away if that decided, in place of a store that could not be asked; engines leave it empty.
	Away string
	// MaxKeys is as Ruled.MaxKeys.
	MaxKeys int64
	// Lease is the place that was taken, of concurrency.
	Lease string
	// Err is the *FieldError of a question that cannot be asked.
	Err error
}
