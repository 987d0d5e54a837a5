package rules

import (
	"crypto/rand"
	"fmt"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
)

// Ask returns what a question asks l, the limiter of its key under the rule. A place of concurrency that is asked for
// without a name gets one. Its error is the *invalid.Error of a question that cannot be asked.
func (r *Rule) Ask(t Take, l leaky.Limiter) (leaky.Ask, error) {
	if t.Op > TakeAnew {
		return leaky.Ask{}, invalid.Errorf("op", fmt.Sprint(uint8(t.Op)), "must be take, peek, refund or reset")
	}
	if t.Key == "" && r.Key != "" {
		return leaky.Ask{}, invalid.Errorf(
			"key", "", "is missing or empty, and the rule %s counts by %s; give it", r.Name, r.Key,
		)
	}
	if t.Key != "" && r.Key == "" && len(r.Overrides) == 0 { // the caller takes it for a limit of each key
		return leaky.Ask{}, invalid.Errorf(
			"key", "", "is given, and the rule %s counts all as one: leave it out, or give the rule a key", r.Name,
		)
	}
	if err := ValidateKey("key", t.Key); err != nil {
		return leaky.Ask{}, err
	}
	ask := leaky.Ask{Cost: max(1, t.Cost)}
	places := r.Algorithm == leaky.AlgorithmConcurrency
	switch {
	case t.Cost < 0 || t.Cost > leaky.MaxLimit:
		return leaky.Ask{}, invalid.Errorf(
			"cost", fmt.Sprint(t.Cost), "must be from 1 to %d, or be left out, which means 1", leaky.MaxLimit,
		)
	case t.Op == TakeAnew || places && t.Op == TakeBack: // of what the key, or the place, has
		ask.Cost = 1
	case t.Cost > l.Limit() && !(places && t.Lease != ""): // else see Never
		return leaky.Ask{}, CannotPass(r.Name, t.Cost, l.Limit())
	}
	var err error
	ask.Lease, err = r.lease(t)
	return ask, err
}

// Never is the *invalid.Error of a question that l was asked, and refused, and can never let through; nil of any other.
// Only concurrency is asked such: who holds a place renews it at any cost, and only the store knows who does.
func (r *Rule) Never(a leaky.Ask, l leaky.Limiter, d *leaky.Decision) error {
	if d.Allowed || a.Cost <= l.Limit() {
		return nil
	}
	return CannotPass(r.Name, a.Cost, l.Limit())
}

// CannotPass is the *invalid.Error of a cost that a rule can never let through.
func CannotPass(rule string, cost, most int64) error {
	return invalid.Errorf(
		"cost", fmt.Sprint(cost),
		"is more than the rule %s ever lets through at once, %d; lower the cost or raise the rule", rule, most,
	)
}

// nobody is the name of a place that none can have.
const nobody = "\x00"

func (r *Rule) lease(t Take) (string, error) {
	if r.Algorithm != leaky.AlgorithmConcurrency {
		if t.Lease != "" {
			return "", invalid.Errorf(
				"lease", t.Lease, "is of no use to %s: only concurrency has places; leave it out", r.Algorithm,
			)
		}
		return "", nil
	}
	switch {
	case t.Lease == "" && t.Op == TakeNow:
		return rand.Text(), nil
	case t.Lease == "" && t.Op == TakeBack:
		return "", invalid.Errorf("lease", "", "is missing: it names the place that is given back")
	case t.Lease == "":
		return nobody, nil
	case len(t.Lease) > leaky.MaxLease:
		return "", invalid.Errorf("lease", t.Lease, "has %d bytes, the limit is %d", len(t.Lease), leaky.MaxLease)
	}
	for _, c := range []byte(t.Lease) {
		if c <= ' ' || c > '~' {
			return "", invalid.Errorf("lease", t.Lease, "has a character that is not visible ASCII")
		}
	}
	return t.Lease, nil
}
