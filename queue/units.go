package queue

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/penstock/penstock/internal/pointer"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/rules"
)

// Limits of units.
const (
	// UnitJobs is the unit of a job's Cost. A limit without a unit counts it.
	UnitJobs = rules.UnitJobs

	MaxUnitBytes = rules.MaxUnitBytes
	MaxUnitCost  = leaky.MaxUnits // of a job, in one unit
	MaxCosts     = 2 * MaxLimits  // units of a job, as its queue and the parent may count together
)

// Estimate says what jobs that state no cost in a unit are charged.
type Estimate struct {
	Default int64 `json:"default"` // 0 to MaxUnitCost
	// From is a JSON pointer to the cost in the payload. Engines do not read payloads; usage.Estimates does.
	From string `json:"from,omitempty"`
	// Learn is a quantile, such as "p95". Once LearnAfter actual costs are known, it replaces Default. Empty: no learning.
	Learn string `json:"learn,omitempty"`
}

// Counts returns the unit that the limit counts, or "" if it counts the cost of jobs.
func (l *Limit) Counts() string {
	if l.Unit == UnitJobs {
		return ""
	}
	return l.Unit
}

// ValidateUnit checks the name of a unit. Its error is an *invalid.Error.
func ValidateUnit(field, unit string) error { return rules.ValidateUnit(field, unit) }

// UnitsOf returns the units of costs, sorted. Most jobs have none, and then it allocates nothing.
func UnitsOf(costs map[string]int64) []string {
	if len(costs) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(costs))
}

// ValidateCosts checks the costs of a job, or its actual costs, in units other than jobs. Its error is an
// *invalid.Error.
func ValidateCosts(field string, costs map[string]int64) error {
	if len(costs) > MaxCosts {
		return invalid.Errorf(field, "", "name %d units, the limit is %d", len(costs), MaxCosts)
	}
	for _, unit := range UnitsOf(costs) {
		if unit == UnitJobs {
			return invalid.Errorf(field+"."+UnitJobs, "", "is not allowed here: the field cost has the cost in jobs")
		}
		if err := ValidateUnit(field, unit); err != nil {
			return err
		}
		if err := invalid.Range(field+"."+unit, costs[unit], 0, MaxUnitCost); err != nil {
			return err
		}
	}
	return nil
}

// estimateSettings is the table of an estimate's settings.
var estimateSettings = []setting[Estimate]{
	{
		name: "default", at: func(e *Estimate) any { return &e.Default }, min: 0, max: MaxUnitCost, required: true,
		example: "1000",
		doc:     "Cost of a job that states none in this unit.",
	},
	{
		name: "from", at: func(e *Estimate) any { return &e.From }, absent: "nowhere", example: "/max_tokens",
		doc: "JSON pointer to the cost in the payload. It counts before the default if there is a number." +
			" A number that is no cost, such as -1 or 1e99, is refused.",
		check: func(e *Estimate, field string) error {
			if e.From == "" {
				return nil
			}
			if _, fault := pointer.Parse(e.From); fault != "" {
				return invalid.Errorf(field, e.From, "%s", fault)
			}
			return nil
		},
	},
	{
		name: "learn", at: func(e *Estimate) any { return &e.Learn }, absent: "nothing",
		values: []string{"p50", "p90", "p95", "p99"},
		doc: "Quantile of the latest actual costs that replaces the default, once 32 are known." +
			" A child without an estimate of its own learns with its siblings.",
	},
}

func (s *Spec) validateEstimate(field string) error {
	if len(s.Estimate) > MaxCosts {
		return invalid.Errorf(field, "", "has %d units, the limit is %d", len(s.Estimate), MaxCosts)
	}
	for _, unit := range slices.Sorted(maps.Keys(s.Estimate)) {
		if err := ValidateUnit(field, unit); err != nil {
			return err
		}
		if unit == UnitJobs {
			return invalid.Errorf(field, unit, "needs no estimate: the cost of a job in jobs is 1 unless it states another")
		}
		e := s.Estimate[unit]
		if err := validate(&e, estimateSettings, field+"."+unit+"."); err != nil {
			return err
		}
	}
	return nil
}

// UncountedUnit returns the error for a cost in a unit that no limit counts.
func UncountedUnit(field, unit, queue string) error {
	return invalid.Errorf(field+"."+unit, "",
		"is given, but no limit of %s, its lanes or its parent has this unit; leave it out, or add a limit with unit %s",
		queue, unit)
}

// MissingCost returns the error for a job that states no cost in a unit that a limit counts.
func MissingCost(unit, queue string) error {
	return invalid.Errorf("costs."+unit, "",
		"is missing: a limit counts %[1]s; give the job its cost, or set estimate.%[1]s.default on %[2]s", unit, queue)
}

// String returns all settings of a limit as a text, such as "tokens 200000/m burst 20000".
func (l *Limit) String() string {
	unit := l.Counts()
	switch {
	case l.HasQuota():
		text := l.QuotaText()
		if l.Timezone != "" {
			text += " " + l.Timezone
		}
		if l.Ramp.On() {
			text += " " + l.Ramp.String()
		}
		return text
	case unit != "":
		unit += " "
	}
	return fmt.Sprintf("%s%s burst %d", unit, l.Rate, max(1, l.Burst))
}

// Budget returns the rule of a limit that IsBudget.
func (l *Limit) Budget() leaky.Budget { return leaky.Budget{Rate: l.Rate, Burst: max(1, l.Burst)} }

// EstimateOf returns the estimate in a unit that applies to jobs of the queue s. The parent is nil if there is none.
func EstimateOf(s, parent *Spec, unit string) (e Estimate, ok bool) {
	if e, ok = s.Estimate[unit]; !ok && parent != nil {
		e, ok = parent.Estimate[unit]
	}
	return e, ok
}

// CostsText returns costs as a text, such as "images=2 tokens=1800".
func CostsText(costs map[string]int64) string {
	var b []byte
	for i, unit := range UnitsOf(costs) {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendInt(append(append(b, unit...), '='), costs[unit], 10)
	}
	return string(b)
}

// Estimates returns a spec's estimates as a text for the scripts in Redis, such as "images=2 tokens=1000~95": defaults,
// and the percentage of the quantile that is learned.
func (s *Spec) Estimates() string {
	var b []byte
	for i, unit := range slices.Sorted(maps.Keys(s.Estimate)) {
		if i > 0 {
			b = append(b, ' ')
		}
		e := s.Estimate[unit]
		b = strconv.AppendInt(append(append(b, unit...), '='), e.Default, 10)
		if e.Learn != "" {
			b = append(append(b, '~'), e.Learn[1:]...)
		}
	}
	return string(b)
}
