package rules

import (
	"time"

	"github.com/penstock/penstock/leaky"
)

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
	// MaxKeys is as Ruling.MaxKeys.
	MaxKeys int64
	// Lease is the place that was taken, of concurrency.
	Lease string
	// Err is the *invalid.Error of a question that cannot be asked.
	Err error
}

// Ruling is what a rule said of a job.
type Ruling struct {
	Rule   string
	Shadow bool   // it refuses nothing
	Away   string // as Taken.Away
	// MaxKeys is how many keys the rule may hold, if it refuses only because it holds so many; else 0.
	MaxKeys int64
	leaky.Decision
}

// Limited is what refused: the rule of r that asks to wait longest, and how long; false if none does.
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
