package queuetest

import (
	"pgregory.net/rapid"

	"github.com/penstock/penstock/queue"
)

var pairUnits = []string{"tokens", "images"}

// units draws what limits of a spec count, and estimates.
func (p *pair) units(s *queue.Spec) {
	s.Estimate = nil
	if !p.metered {
		return
	}
	for i := range s.Limits {
		l := &s.Limits[i]
		l.Unit = rapid.SampledFrom(append([]string{"", queue.UnitJobs}, pairUnits...)).Draw(p.T, "unit")
		if l.IsBudget() {
			l.Rate = laneRate(rapid.SampledFrom([]string{"100/s", "7/s", "999983/m", "3.7/m"}).Draw(p.T, "budget")).Rate
			l.Burst = rapid.SampledFrom([]int64{0, 1, 10, 100, 5000}).Draw(p.T, "burst of budget")
		}
	}
	for _, unit := range pairUnits {
		if rapid.IntRange(0, 4).Draw(p.T, "estimate") > 0 {
			if s.Estimate == nil {
				s.Estimate = map[string]queue.Estimate{}
			}
			s.Estimate[unit] = queue.Estimate{Default: p.unitCost("estimated")}
		}
	}
}

// laneLimits draws the limits of a lane, mostly none.
func (p *pair) laneLimits() queue.LaneLimits {
	if !p.metered {
		return queue.LaneLimits{}
	}
	var list []queue.Limit
	for range rapid.SampledFrom([]int{0, 0, 1, 1, 2}).Draw(p.T, "lane limits") {
		list = append(list, queue.Limit{
			Unit:  rapid.SampledFrom(pairUnits).Draw(p.T, "unit of lane"),
			Rate:  laneRate(rapid.SampledFrom([]string{"100/s", "7/s", "999983/m", "3.7/m"}).Draw(p.T, "lane budget")).Rate,
			Burst: rapid.SampledFrom([]int64{0, 1, 10, 100, 5000}).Draw(p.T, "burst of lane budget"),
		})
	}
	return queue.LimitLane(list...)
}

// costs draws the costs of a job, or actual ones; mostly none.
func (p *pair) costs(label string) (costs map[string]int64) {
	if !p.metered || rapid.IntRange(0, 1).Draw(p.T, label) == 0 {
		return nil
	}
	for _, unit := range append([]string{"else"}, pairUnits...) {
		if unit == "else" && rapid.IntRange(0, 9).Draw(p.T, "uncounted") > 0 || rapid.Bool().Draw(p.T, unit) {
			continue
		}
		if costs == nil {
			costs = map[string]int64{}
		}
		costs[unit] = p.unitCost("cost in units")
	}
	return costs
}

func (p *pair) unitCost(label string) int64 {
	return rapid.SampledFrom([]int64{0, 1, 1, 3, 3, 10, 10, 10, 50, 200, 200, 7001, queue.MaxUnitCost}).Draw(p.T, label)
}
