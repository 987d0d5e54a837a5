package queuetest

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/penstock/penstock/queue"
)

// adapts draws whether the rate of a spec adapts, and its bounds.
func (p *pair) adapts(s *queue.Spec) {
	if s.Rate.Unlimited() || !rapid.Bool().Draw(p.T, "adapts") {
		return
	}
	s.Adapt = queue.Adapt{Floor: s.Rate, Ceiling: s.Rate}
	if rapid.Bool().Draw(p.T, "floor below") {
		s.Adapt.Floor = laneRate(rapid.SampledFrom([]string{"1/744h", "1/h", "0.9/h"}).Draw(p.T, "floor")).Rate
	}
	if rapid.Bool().Draw(p.T, "ceiling above") {
		s.Adapt.Ceiling = laneRate(rapid.SampledFrom([]string{
			"1000000/s", "1001/s", "1000/s",
		}).Draw(p.T, "ceiling")).Rate
	}
}

// adaptions formats the adaptive rate of an Info.
func adaptions(i queue.Info) string {
	text := fmt.Sprint("rate ", i.Rate)
	for _, a := range i.Adaptions {
		text += fmt.Sprintf(" %s %s to %s %s %q", micro(a.At), a.From, a.To, a.Cause, a.Reason)
	}
	return text
}
