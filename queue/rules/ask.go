package rules

import (
	"crypto/rand"
	"fmt"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
)

// Ask converts a take into a request to l, the limiter of its key. A take of concurrency without a lease gets a
// generated one. Its error is the *invalid.Error of an invalid take.
func (r *Rule) Ask(t Take, l leaky.Limiter) (leaky.Ask, error) {
	if t.Op > TakeCorrect {
		return leaky.Ask{}, invalid.Errorf("op", fmt.Sprint(uint8(t.Op)), "must be take, peek, refund, reset or correct")
	}
	if t.Key == "" && r.Key != "" {
		return leaky.Ask{}, invalid.Errorf(
			"key", "", "is missing or empty, but the rule %s counts by %s", r.Name, r.Key,
		)
	}
	if t.Key != "" && r.Key == "" && len(r.Overrides) == 0 { // the caller assumes a limit per key
		return leaky.Ask{}, invalid.Errorf(
			"key", "", "has no effect: the rule %s has no key and counts everything together; leave it out, or give the "+
				"rule a key", r.Name,
		)
	}
	if err := ValidateKey("key", t.Key); err != nil {
		return leaky.Ask{}, err
	}
	if t.ID != "" && t.Op != TakeCorrect {
		return leaky.Ask{}, invalid.Errorf("take", t.ID, "is allowed only for correct")
	}
	if r.Unit != "" || t.Unit != "" || t.Op == TakeCorrect {
		return r.askUnits(t, l)
	}
	ask := leaky.Ask{Cost: max(1, t.Cost)}
	places := r.Algorithm == leaky.AlgorithmConcurrency
	switch {
	case t.Cost < 0 || t.Cost > leaky.MaxLimit:
		return leaky.Ask{}, invalid.Errorf(
			"cost", fmt.Sprint(t.Cost), "must be from 1 to %d; the default is 1", leaky.MaxLimit,
		)
	case t.Op == TakeAnew || places && t.Op == TakeBack: // everything of the key or the place
		ask.Cost = 1
	case t.Cost > l.Limit() && !(places && t.Lease != ""): // otherwise see Never
		return leaky.Ask{}, CannotPass("cost", r.Name, t.Cost, l.Limit())
	}
	var err error
	ask.Lease, err = r.lease(t)
	return ask, err
}

// Never returns the *invalid.Error of a refused request that l can never allow, or nil. This only happens with
// concurrency: the holder of a place may renew it at any cost, and only the store knows the holder.
func (r *Rule) Never(a leaky.Ask, l leaky.Limiter, d *leaky.Decision) error {
	if d.Allowed || a.Cost <= l.Limit() || r.Unit != "" { // a correction may state any cost
		return nil
	}
	return CannotPass("cost", r.Name, a.Cost, l.Limit())
}

// CannotPass returns the *invalid.Error of a cost that a rule can never allow.
func CannotPass(field, rule string, cost, most int64) error {
	return invalid.Errorf(
		field, fmt.Sprint(cost),
		"exceeds the maximum that the rule %s allows at once, %d; lower the cost or raise the limit", rule, most,
	)
}

// noLease is a lease that no place can have.
const noLease = "\x00"

func (r *Rule) lease(t Take) (string, error) {
	if r.Algorithm != leaky.AlgorithmConcurrency {
		if t.Lease != "" {
			return "", invalid.Errorf(
				"lease", t.Lease, "has no effect with %s: only concurrency has leases; leave it out", r.Algorithm,
			)
		}
		return "", nil
	}
	switch {
	case t.Lease == "" && t.Op == TakeNow:
		return rand.Text(), nil
	case t.Lease == "" && t.Op == TakeBack:
		return "", invalid.Errorf("lease", "", "is missing: it identifies the place to give back")
	case t.Lease == "":
		return noLease, nil
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
