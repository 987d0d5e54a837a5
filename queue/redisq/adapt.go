package redisq

import (
	"fmt"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// adaptRule returns the rule of an adapted rate as adapt.lua reads it, empty without one.
func adaptRule(s *queue.Spec) string {
	n, d := s.Rate.Fraction()
	switch {
	case s.Learn != "":
		return fmt.Sprint("learn ", n, " ", d, " ", s.Learn)
	case !s.Adapt.On():
		return ""
	}
	rule := s.Adapt.Rule()
	fn, fd := rule.Floor.Fraction()
	cn, cd := rule.Ceiling.Fraction()
	unit, floor, ceiling := rule.Levels()
	return fmt.Sprint(fn, fd, cn, cd, int64(unit), floor, ceiling, n, d, rule.Begin(s.Rate).Level)
}

func readRate(r *reply) leaky.Rate { return leaky.RateOf(r.int(), r.int()) }
