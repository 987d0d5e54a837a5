package rules

import (
	"crypto/rand"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
)

const (
	// UnitJobs is the unit of a job's cost, and of everything that names no unit.
	UnitJobs = "jobs"
	// MaxUnitBytes is the maximum length of a unit's name.
	MaxUnitBytes = 32
)

// ValidateUnit checks the name of a unit. Its error is an *invalid.Error.
func ValidateUnit(field, unit string) error {
	if unit == "" || len(unit) > MaxUnitBytes || !isUnit(unit) {
		return invalid.Errorf(field, unit,
			"is not a unit: a lower-case letter, then letters, digits and _, at most %d together, such as tokens", MaxUnitBytes)
	}
	return nil
}

func isUnit(s string) bool {
	for i, c := range s {
		if letter := c >= 'a' && c <= 'z'; !letter && (i == 0 || c != '_' && (c < '0' || c > '9')) {
			return false
		}
	}
	return true
}

func (r *Rule) validateUnit() error {
	budget := NeedsUnit(r.Algorithm)
	switch {
	case r.Unit != "" && !budget:
		return invalid.Errorf("unit", r.Unit, "has no effect with %s: only a budget has a unit; leave it out", r.Algorithm)
	case r.Unit == "" && budget:
		return invalid.Errorf("unit", "", "is missing, but a budget needs it; use for example \"tokens\"")
	case r.Unit == UnitJobs:
		return invalid.Errorf("unit", r.Unit, "needs no budget; use the algorithm token_bucket, which counts jobs")
	case budget:
		return ValidateUnit("unit", r.Unit)
	}
	return nil
}

// askUnits is Ask for takes that state a unit, rules that have one, and corrections.
func (r *Rule) askUnits(t Take, l leaky.Limiter) (ask leaky.Ask, err error) {
	field := "costs"
	if t.Op == TakeCorrect {
		field = "actual"
	}
	switch {
	case r.Unit == "" && t.Op == TakeCorrect:
		return ask, invalid.Errorf(
			"op", t.Op.String(), "is impossible: the rule %s has no unit, and only takes in a unit, such as tokens, can be "+
				"corrected", r.Name,
		)
	case t.Unit != "" && !isUnit(t.Unit) || len(t.Unit) > MaxUnitBytes:
		return ask, ValidateUnit(field, t.Unit)
	case r.Unit == "":
		return ask, invalid.Errorf(
			field+"."+t.Unit, "", "is given, but the rule %s has no unit; give the cost as cost", r.Name,
		)
	case t.Lease != "":
		return ask, invalid.Errorf("lease", t.Lease, "has no effect with %s: only concurrency has leases; leave it out",
			r.Algorithm)
	case t.Op == TakeAnew:
		return leaky.Ask{Cost: 1}, nil
	case t.Op == TakeBack:
		return ask, invalid.Errorf(
			"op", t.Op.String(), "is impossible: the rule %s counts %s; correct the take to 0 instead", r.Name, r.Unit,
		)
	case t.Unit == "":
		return ask, invalid.Errorf(
			field+"."+r.Unit, "", "is missing: the rule %s counts %s", r.Name, r.Unit,
		)
	case t.Unit != r.Unit:
		return ask, invalid.Errorf(field+"."+t.Unit, "", "is given, but the rule %s counts %s", r.Name, r.Unit)
	}
	field += "." + r.Unit
	if t.Op == TakeCorrect {
		if err := validateTakeID(t.ID); err != nil {
			return ask, err
		}
		return leaky.Ask{Cost: t.Cost, Lease: t.ID}, invalid.Range(field, t.Cost, 0, leaky.MaxUnits)
	}
	if err := invalid.Range(field, t.Cost, 1, leaky.MaxUnits); err != nil {
		return ask, err
	}
	if t.Cost > l.Limit() {
		return ask, CannotPass(field, r.Name, t.Cost, l.Limit())
	}
	ask.Cost = t.Cost
	if t.Op == TakeNow {
		ask.Lease = rand.Text()
	}
	return ask, nil
}

// SetID sets the ID of an allowed take, or its lease, to what Ask has generated.
func (r *Rule) SetID(a *Taken, ask leaky.Ask) {
	if r.Unit != "" {
		a.ID = ask.Lease
	} else {
		a.Lease = ask.Lease
	}
}

func validateTakeID(id string) error {
	if id == "" {
		return invalid.Errorf("take", "", "is missing: give the id of the take, from its answer")
	}
	ok := len(id) <= leaky.MaxLease
	for i := 0; ok && i < len(id); i++ {
		ok = id[i] > ' ' && id[i] <= '~'
	}
	if !ok {
		return invalid.Errorf("take", id, "is not the id of a take: give the one from its answer")
	}
	return nil
}

// UnknownTake returns the *invalid.Error of a correction of a take that the store does not know.
func UnknownTake(id string) error {
	return invalid.Errorf(
		"take", id, "is unknown under this rule and key: it was never allowed, it was more than %v ago, the rule was reset, "+
			"or the store forgot it in a restart; its charge stands", CorrectFor,
	)
}
