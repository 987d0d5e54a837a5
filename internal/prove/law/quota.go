package law

import (
	"slices"
	"time"
)

// Quota is the law of a quota: in each of the consecutive windows that end at Ends, at most Max units of cost depart. A
// start may be seen up to Late after its departure, so possibly in the next window.
type Quota struct {
	Max int64
	// Steps are the maxima of a ramp, in place of Max. A window's step is the number of windows before it in which
	// something departed; the last step stays.
	Steps []int64
	Ends  []time.Duration
	Late  time.Duration // slack and delta of a Law
}

// QuotaVerdict is the result of Quota.Judge.
type QuotaVerdict struct {
	Held bool
	// Used is the cost seen in each window; the last window is after all Ends. Most is the maximum of each.
	Used, Most []int64
	// Worst is the span of windows that breaks the law most, or comes nearest to breaking it.
	Worst Window
}

// Judge examines every span of windows. All starts seen in a span departed in it, except those seen in its first Late.
func (q Quota) Judge(starts []Start) QuotaVerdict {
	v := QuotaVerdict{Held: true, Used: make([]int64, len(q.Ends)+1)}
	sorted := slices.Clone(starts)
	slices.SortStableFunc(sorted, func(a, b Start) int { return int(min(max(a.At-b.At, -1), 1)) })
	at := func(t time.Duration) int64 { // the cost seen before t
		var sum int64
		for _, s := range sorted {
			if s.At >= t {
				break
			}
			sum += max(s.Cost, 1)
		}
		return sum
	}
	before, total := make([]int64, len(q.Ends)), at(1<<62)
	for i, end := range q.Ends {
		before[i] = at(end)
	}
	for i := range v.Used {
		from, to := int64(0), total
		if i > 0 {
			from = before[i-1]
		}
		if i < len(before) {
			to = before[i]
		}
		v.Used[i] = to - from
	}
	v.Most = q.most(len(v.Used), at)
	for i := -1; i < len(q.Ends); i++ {
		sure, begin, allowed := int64(0), time.Duration(0), int64(0)
		if i >= 0 {
			begin = q.Ends[i]
			sure = at(begin + q.Late)
		}
		for j := i + 1; j <= len(q.Ends); j++ {
			until, end := total, begin
			if j < len(q.Ends) {
				until, end = before[j], q.Ends[j]
			}
			allowed += v.Most[j]
			w := Window{From: begin, Width: end - begin, Starts: max(0, until-sure), Allowed: allowed}
			v.Held = v.Held && w.Starts <= w.Allowed
			if v.Worst.Allowed == 0 || w.Starts-w.Allowed > v.Worst.Starts-v.Worst.Allowed {
				v.Worst = w
			}
		}
	}
	return v
}

// most returns the maxima of n windows; at returns the cost seen before an instant. What is seen in the first Late of a
// window may have departed in the one before, so both may be counted.
func (q Quota) most(n int, at func(time.Duration) int64) []int64 {
	most, used := make([]int64, n), 0
	for i := range most {
		if most[i] = q.Max; len(q.Steps) == 0 {
			continue
		}
		most[i] = q.Steps[min(used, len(q.Steps)-1)]
		begin := int64(0)
		if i > 0 {
			begin = at(q.Ends[i-1])
		}
		if i < len(q.Ends) && at(q.Ends[i]+q.Late) > begin {
			used++
		}
	}
	return most
}
