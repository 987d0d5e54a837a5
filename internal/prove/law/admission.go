package law

import (
	"cmp"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
)

// Admission is the law of a rule for one key: in any span of time, both ends included, the rule allows at most Allowed.
// It holds whatever was taken before. Takes that were given back must be left out. A sliding log gives back its latest
// entry instead of the intended one, so while it counts either of them, the law is weaker.
type Admission struct {
	By leaky.Limiter
	// Delta is how far the clock of the decisions may drift from the clock of the callers in the longest span. It is at
	// least the microsecond to which decisions are precise. Fix it before the run.
	Delta time.Duration
}

// Passed is an allowed take. It was decided at an unknown instant between question and answer.
type Passed struct {
	Asked, Answered time.Duration // on any one clock
	Cost            int64         // 0 means 1
}

// AdmissionVerdict is the result of Admission.Judge.
type AdmissionVerdict struct {
	Held bool
	// Worst is the span that breaks the law most, or comes nearest to breaking it. It is zero if no take is known to
	// lie in a span.
	Worst Window
}

// Allowed returns the maximum cost in any span of w, both ends included, or -1 for no limit.
func (a Admission) Allowed(w time.Duration) int64 {
	if w < 0 {
		return 0
	}
	return a.By.Most(w + a.Delta)
}

// Judge examines every span from a question to an answer. A take asked and answered within a span was allowed in it,
// whenever it was decided. So the verdict is never wrong about a violation, however late the answers arrived. The
// sooner they arrived, the fewer violations it misses. The order of passed does not matter. The time is quadratic in
// their number.
func (a Admission) Judge(passed []Passed) AdmissionVerdict {
	v := AdmissionVerdict{Held: true}
	if a.Allowed(0) < 0 {
		return v
	}
	sorted := byAnswer(passed)
	worst := int64(-1 << 62)
	for i := range sorted {
		from, sum := sorted[i].Asked, int64(0)
		for _, p := range answeredFrom(sorted, from) {
			if p.Asked < from {
				continue
			}
			sum += max(p.Cost, 1)
			if allowed := a.Allowed(p.Answered - from); sum-allowed > worst {
				worst = sum - allowed
				v.Worst = Window{From: from, Width: p.Answered - from + 1, Starts: sum, Allowed: allowed}
			}
		}
	}
	v.Held = worst <= 0
	return v
}

// MostPassed returns the maximum cost known to be allowed in a span of w, both ends included.
func MostPassed(passed []Passed, w time.Duration) int64 {
	sorted, most := byAnswer(passed), int64(0)
	for i := range sorted {
		from, sum := sorted[i].Asked, int64(0)
		for _, p := range answeredFrom(sorted, from) {
			if p.Answered > from+w {
				break
			}
			if p.Asked >= from {
				sum += max(p.Cost, 1)
			}
		}
		most = max(most, sum)
	}
	return most
}

func byAnswer(passed []Passed) []Passed {
	sorted := slices.Clone(passed)
	slices.SortFunc(sorted, func(x, y Passed) int { return cmp.Compare(x.Answered, y.Answered) })
	return sorted
}

// answeredFrom returns the takes answered at from or later; the others were also asked before from.
func answeredFrom(sorted []Passed, from time.Duration) []Passed {
	i, _ := slices.BinarySearchFunc(
		sorted, from, func(p Passed, at time.Duration) int { return cmp.Compare(p.Answered, at) },
	)
	return sorted[i:]
}
