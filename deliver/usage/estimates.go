package usage

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/pointer"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// Estimates are the places in a payload that state what a job will use, by queue.Estimate.From.
type Estimates struct {
	units []string
	paths []pointer.Pointer // by unit
}

// EstimatesOf returns the Estimates for jobs of the queue s. The parent may be nil. Units that no limit counts are left
// out. Without a pointer, the Estimates are nil.
func EstimatesOf(s, parent *queue.Spec) *Estimates {
	var e *Estimates
	for _, unit := range unitsOf(s, parent) {
		estimate, _ := queue.EstimateOf(s, parent, unit)
		path, fault := pointer.Parse(estimate.From)
		if fault != "" || e != nil && slices.Contains(e.units, unit) {
			continue
		}
		if e == nil {
			e = &Estimates{}
		}
		e.units, e.paths = append(e.units, unit), append(e.paths, path)
	}
	return e
}

// unitsOf returns the units that limits of a queue, its lanes and its parent count, some of them twice.
func unitsOf(s, parent *queue.Spec) (units []string) {
	for _, of := range [...]*queue.Spec{s, parent} {
		for i := 0; of != nil && i < len(of.Limits); i++ {
			if unit := of.Limits[i].Counts(); unit != "" {
				units = append(units, unit)
			}
		}
	}
	return append(units, s.Lanes.Units()...)
}

// Costs returns the costs of a job: the stated ones, and in other units those in its payload. A payload that is no JSON
// has none, and a value that is not a number is no cost. The result is stated itself if nothing is added.
// The error for a number that is no cost, or appears twice, is an *invalid.Error.
func (e *Estimates) Costs(stated map[string]int64, contentType string, payload []byte) (map[string]int64, error) {
	if e == nil || len(payload) == 0 || contentType != "" && !queue.IsJSON(contentType) || e.allIn(stated) {
		return stated, nil
	}
	s := pointer.NewScanner(e.paths)
	s.Write(payload)
	if !s.End() {
		return stated, nil
	}
	costs := stated
	for i, unit := range e.units {
		f := s.Found(i)
		if _, known := stated[unit]; known || f.Times == 0 || f.Number == "" {
			continue
		}
		cost, ok := whole(f.Number)
		if !ok || f.Times > 1 {
			return nil, e.refusal(i, f)
		}
		if len(costs) == len(stated) {
			if costs = maps.Clone(stated); costs == nil {
				costs = map[string]int64{}
			}
		}
		costs[unit] = cost
	}
	return costs, nil
}

// allIn reports whether costs in all units are stated.
func (e *Estimates) allIn(stated map[string]int64) bool {
	for _, unit := range e.units {
		if _, known := stated[unit]; !known {
			return false
		}
	}
	return true
}

// whole returns the cost that a JSON number is, however it is written: 1000 may be 1e3.
func whole(number string) (cost int64, ok bool) {
	if len(number) > pointer.MaxNumberBytes { // cut
		return 0, false
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || v < 0 || v > queue.MaxUnitCost || v != math.Trunc(v) {
		return 0, false
	}
	return int64(v), true
}

func (e *Estimates) refusal(i int, f pointer.Found) error {
	unit, field := e.units[i], "payload."+strings.Join(e.paths[i], ".")
	if f.Times > 1 {
		return invalid.Errorf(field, "",
			"appears %d times, but the queue reads the cost in %s from it; keep one of them, or state the cost", f.Times, unit)
	}
	return invalid.Errorf(field, f.Number, "must be a whole number from 0 to %d: the queue reads the cost in %s from it; "+
		"correct it, or state the cost", int64(queue.MaxUnitCost), unit)
}

// Dropped reports whether the error of an append is that no limit counts a unit whose cost was added to stated. This
// happens for a moment after limits have changed.
func Dropped(err error, stated, costs map[string]int64) bool {
	var bad *invalid.Error
	if len(costs) == len(stated) || !errors.As(err, &bad) {
		return false
	}
	unit, ok := strings.CutPrefix(bad.Field, "costs.")
	_, own := stated[unit]
	_, added := costs[unit]
	return ok && added && !own
}
