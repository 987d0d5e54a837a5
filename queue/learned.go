package queue

import (
	"fmt"
	"strconv"

	"github.com/penstock/penstock/leaky"
)

// LearnAfter is the number of actual costs that Estimate.Learn needs. Until then the default applies.
const LearnAfter = 32

// LearnedCosts has the actual costs of a queue's jobs in one unit. Estimate.Learn is a quantile of these costs. A cost
// of 0 is left out: the receiver has refused that call. Each attempt of a job counts once, even if its settlement is
// repeated.
type LearnedCosts struct {
	Unit  string
	Costs leaky.Histogram
}

// Learned returns what a job that states no cost is charged by the costs that are known; 0 while the default applies.
func (e Estimate) Learned(costs leaky.Histogram) int64 {
	if e.Learn == "" || costs.Costs() < LearnAfter {
		return 0
	}
	percent, _ := strconv.Atoi(e.Learn[1:]) // validated
	return costs.Quantile(percent)
}

// Expected returns what a job that states no cost in a unit would be charged if the queue had the spec s, and whether
// an estimate says so.
func (i *Info) Expected(s *Spec, unit string) (cost int64, ok bool) {
	if e, own := s.Estimate[unit]; own {
		return i.expected(e, unit), true
	}
	if i.Parent == nil {
		return 0, false
	}
	e, ok := i.Parent.Spec.Estimate[unit]
	return i.Parent.expected(e, unit), ok
}

// expected returns what was learned of a unit for the estimate e, or else its default.
func (i *Info) expected(e Estimate, unit string) int64 {
	for _, l := range i.Learned {
		if l.Unit == unit {
			if cost := e.Learned(l.Costs); cost > 0 {
				return cost
			}
		}
	}
	return e.Default
}

// PackLearned returns a text that UnpackLearned reads: of each unit 1 byte of length, its name, 2 bytes of length and
// the histogram.
func PackLearned(list []LearnedCosts) string {
	var b []byte
	for _, l := range list {
		b = append(append(b, byte(len(l.Unit))), l.Unit...)
		b = append(append(b, byte(len(l.Costs)>>8), byte(len(l.Costs))), l.Costs...)
	}
	return string(b)
}

// UnpackLearned reads a text of PackLearned. The error wraps ErrCorrupt.
func UnpackLearned(text string) (list []LearnedCosts, err error) {
	broken := fmt.Errorf("%w: learned costs", ErrCorrupt)
	next := func(n int) (part string) {
		if n > len(text) {
			err, text = broken, ""
			return ""
		}
		part, text = text[:n], text[n:]
		return part
	}
	for len(text) > 0 && err == nil {
		var l LearnedCosts
		l.Unit = next(int(next(1)[0]))
		if size := next(2); err == nil {
			l.Costs = leaky.Histogram(next(int(size[0])<<8 | int(size[1])))
		}
		list = append(list, l)
	}
	if err == nil {
		err = ValidateLearned(list)
	}
	if err != nil {
		return nil, err
	}
	return list, nil
}

// ValidateLearned checks that a list is what a queue can have learned. The error wraps ErrCorrupt.
func ValidateLearned(list []LearnedCosts) error {
	for i, l := range list {
		if ValidateUnit("unit", l.Unit) != nil || !l.Costs.Valid() || i > 0 && l.Unit <= list[i-1].Unit || i == MaxCosts {
			return fmt.Errorf("%w: learned costs", ErrCorrupt)
		}
	}
	return nil
}
