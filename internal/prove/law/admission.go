package law

import (
	"cmp"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
)

// Admission is the law of a rule, under one key: in any span of time, both ends included, at most so much is let
// through as Allowed says. It holds whatever was taken before. What was given back must not be among what
// is judged; and a log gives back its latest entry, not the one that was meant, so it keeps the law up to the time in
// between.
type Admission struct {
	By leaky.Limiter
	// Delta is by how much the clock by which it was decided may run apart from the one that saw it, in the longest
	// span: at least the microsecond to which the former counts. Fix it before the run that it judges.
	Delta time.Duration
}

// Passed is something that was let through: at some instant from when it was asked to when that was answered, nobody
// knows which.
type Passed struct {
	Asked, Answered time.Duration // on any one clock
	Cost            int64         // 0 means 1
}

// AdmissionVerdict is what Judge of an Admission found.
type AdmissionVerdict struct {
	Held bool
	// Worst is the span that comes nearest to breaking the law, or breaks it most; zero if nothing is known to lie in one.
	Worst Window
}

// Allowed returns how much passes at most in any span of w, both ends included, or -1 for no limit.
func (a Admission) Allowed(w time.Duration) int64 {
	if w < 0 {
		return 0
	}
	return a.By.Most(w + a.Delta)
}

// Judge looks at every span from when something was asked to when something was answered. What was asked and answered
// within it was let through in it, whenever that was. So it accuses nobody wrongly, however late the answers were seen;
// and the nearer they were seen, the less it misses. The order does not matter. It takes time by the square of their
// number.
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

// MostPassed returns the most that is known to have been let through in some span of w, both ends included.
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

// answeredFrom returns those that were answered at an instant or later: what was answered before was asked before as
// well.
func answeredFrom(sorted []Passed, from time.Duration) []Passed {
	i, _ := slices.BinarySearchFunc(
		sorted, from, func(p Passed, at time.Duration) int { return cmp.Compare(p.Answered, at) },
	)
	return sorted[i:]
}
