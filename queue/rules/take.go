package rules

import (
	"time"

	"github.com/penstock/penstock/leaky"
)

// TakeOp is the kind of a Take.
type TakeOp uint8

// The kinds of takes.
const (
	TakeNow  TakeOp = iota // take if allowed
	TakePeek               // answer as TakeNow, without taking
	TakeBack               // give back an unused take; never more than was taken
	TakeAnew               // clear the key's tally
	// TakeCorrect charges the actual cost of an earlier take in place of what it was charged. A lower cost never makes
	// more credit than the burst; a higher cost delays later takes. Only the first correction of a take counts, so it may
	// be repeated. A take can be corrected for CorrectFor.
	TakeCorrect
)

// CorrectFor is how long after a take its cost can be corrected.
const CorrectFor = 15 * time.Minute

func (o TakeOp) String() string { return [...]string{"take", "peek", "refund", "reset", "correct"}[o] }

// Take is a request to a rule.
type Take struct {
	Op  TakeOp
	Key string
	// Cost is how much to take; without a unit, 0 means 1. To correct a take it is the actual cost, from 0.
	Cost int64
	// Unit is the unit of Cost. It must be that of the rule: a rule without a unit takes none.
	Unit string
	// Lease identifies a place of concurrency; taking it again renews it. Without a lease, TakeNow generates one, and
	// TakePeek asks for a new place. TakeBack needs it.
	Lease string
	// ID identifies the take to correct, for TakeCorrect only: Taken.ID of its answer.
	ID string
}

// Taken is the answer to a Take.
type Taken struct {
	leaky.Decision
	// Shadow is whether the rule is a shadow, which refuses nothing, even if Allowed is false.
	Shadow bool
	// Away is the rule's Away if it decided in place of an unreachable store; engines leave it empty.
	Away string
	// MaxKeys is as in Ruling.
	MaxKeys int64
	// Lease is the place taken, for concurrency.
	Lease string
	// ID identifies the take for a correction. Takes of rules without a unit have none, and neither have takes that were
	// refused or not decided by the store.
	ID string
	// Err is the *invalid.Error of an invalid take.
	Err error
}

// Ruling is the answer of a rule to a job.
type Ruling struct {
	Rule   string
	Shadow bool   // as in Taken
	Away   string // as in Taken
	// MaxKeys is the maximum number of keys if the rule refused only because it was reached; else 0.
	MaxKeys int64
	leaky.Decision
}

// Limited returns the refusing rule with the longest wait; limited is false if no rule refused.
func Limited(r []Ruling) (rule string, wait time.Duration, limited bool) {
	for i := range r {
		if r[i].Allowed || r[i].Shadow {
			continue
		}
		if !limited || r[i].RetryAfter > wait {
			rule, wait, limited = r[i].Rule, r[i].RetryAfter, true
		}
	}
	return rule, wait, limited
}
