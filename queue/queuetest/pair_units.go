package queuetest

import (
	"fmt"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/leaky"
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
			s.Estimate[unit] = queue.Estimate{
				Default: p.unitCost("estimated"),
				Learn:   rapid.SampledFrom([]string{"", "p50", "p90", "p95", "p99"}).Draw(p.T, "learn"),
			}
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

// made makes a queue: by an import, if it is to have learned something.
func (p *pair) made(s queue.Spec) {
	var learned []queue.LearnedCosts
	for _, unit := range slices.Sorted(maps.Keys(s.Estimate)) {
		if s.Estimate[unit].Learn == "" || rapid.Bool().Draw(p.T, "nothing learned") {
			continue
		}
		var h leaky.Histogram
		for range rapid.SampledFrom([]int{1, 30, 31, 32, 40, 511, 512, 600}).Draw(p.T, "costs known") {
			h = h.Add(p.unitCost("learned"))
		}
		learned = append(learned, queue.LearnedCosts{Unit: unit, Costs: h})
	}
	if learned == nil {
		p.putBoth(s, queue.AnyRevision)
		return
	}
	var got [2]int64
	p.both(fmt.Sprintf("import %s %s %q", s.Name, rulesOf(s), learned), func(side int, e queue.Engine) string {
		s.Normalize()
		done, err := e.(move.Mover).ImportQueues(p.ctx, []move.Queue{{Spec: s, MaxCost: 1, Learned: learned}}, mark)
		if i, err := e.Get(p.ctx, s.Name); err == nil {
			got[side] = i.Revision
		}
		return fmt.Sprintf("%v, %s", done, kind(err))
	})
	p.revision(got)
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
