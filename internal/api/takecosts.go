package api

import (
	"strconv"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/queue/rules"
)

// statedCosts reads the cost of a take in a unit, from costs, or from actual for a correction. plain says whether the
// request has a cost without a unit.
func statedCosts(t *rules.Take, costs, actual map[string]*int64, plain bool) *httpio.Problem {
	field, stated, other, others := "costs", costs, "actual", actual
	if t.Op == rules.TakeCorrect {
		field, stated, other, others = other, others, field, stated
	}
	switch {
	case others != nil:
		return httpio.BadField(other, "is not allowed here: give "+field)
	case plain && (stated != nil || t.Op == rules.TakeCorrect):
		return httpio.BadField("cost", "is not allowed here: give "+field)
	case stated == nil:
		return nil
	}
	all, p := actualCosts(field, stated)
	if p != nil {
		return p
	}
	if len(all) != 1 {
		return httpio.BadField(field, "names "+strconv.Itoa(len(all))+" units, and a rule counts one: give only that")
	}
	for unit, cost := range all {
		t.Unit, t.Cost = unit, cost
	}
	return nil
}
