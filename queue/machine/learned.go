package machine

import (
	"slices"
	"strings"

	"github.com/penstock/penstock/queue"
)

// learnedCost is what a queue has learned of the costs in a unit. Lists of them are never changed.
type learnedCost struct {
	queue.LearnedCosts
	estimate int64 // what jobs are charged that state no cost; 0 while the default applies
}

// learnedCosts returns the costs that estimates have learned.
func (q *queueState) learnedCosts() (list []queue.LearnedCosts) {
	if q.learned == nil {
		return nil
	}
	for _, l := range *q.learned {
		list = append(list, l.LearnedCosts)
	}
	return list
}

// learnedIn returns what the queue has learned of a unit, if that is enough.
func (q *queueState) learnedIn(unit string) (cost int64, ok bool) {
	if q.learned == nil {
		return 0, false
	}
	for _, l := range *q.learned {
		if l.Unit == unit && l.estimate > 0 {
			return l.estimate, true
		}
	}
	return 0, false
}

// setLearned replaces what the queue has learned. It forgets units that no longer learn.
func (q *queueState) setLearned(list []queue.LearnedCosts) {
	var all []learnedCost
	for _, l := range list {
		if e := q.spec.Estimate[l.Unit]; e.Learn != "" && l.Costs.Valid() {
			all = append(all, learnedCost{queue.LearnedCosts{Unit: strings.Clone(l.Unit), Costs: l.Costs}, e.Learned(l.Costs)})
		}
	}
	if q.learned = nil; all != nil {
		q.learned = &all
	}
}

// learnCosts counts the actual costs of a job, for the queue whose estimate applies: its own, or the parent.
func (m *Machine) learnCosts(q *queueState, actual map[string]int64) {
	for _, unit := range queue.UnitsOf(actual) {
		of := q
		if _, own := q.spec.Estimate[unit]; !own {
			of = q.parent()
		}
		if of == nil || of.spec.Estimate[unit].Learn == "" || actual[unit] == 0 {
			continue
		}
		list := of.learnedCosts()
		i, known := slices.BinarySearchFunc(list, unit, func(l queue.LearnedCosts, unit string) int {
			return strings.Compare(l.Unit, unit)
		})
		if !known {
			list = slices.Insert(list, i, queue.LearnedCosts{Unit: unit})
		}
		list[i].Costs = list[i].Costs.Add(actual[unit])
		of.setLearned(list)
		m.touch(of)
	}
}

// estimate returns what a new job that states no cost in a unit is charged: what was learned, or else the default, of
// the queue's estimate or its parent's.
func (q *queueState) estimate(unit string) (cost int64, ok bool) {
	of := q
	if _, own := q.spec.Estimate[unit]; !own {
		if of = q.parent(); of == nil {
			return 0, false
		}
	}
	if cost, ok := of.learnedIn(unit); ok {
		return cost, true
	}
	e, ok := of.spec.Estimate[unit]
	return e.Default, ok
}

// typical is estimate where no job is charged: 1 if nothing is known.
func (q *queueState) typical(unit string) int64 {
	if cost, ok := q.estimate(unit); ok {
		return cost
	}
	return 1
}
