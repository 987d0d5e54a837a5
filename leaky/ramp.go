package leaky

import "math"

// Ramp makes the maximum of a quota grow from window to window. The zero Ramp does not.
type Ramp struct {
	// Steps are the maxima of the first windows, ascending. The last one stays.
	Steps []int64
	// From is when growth begins, if Hold: windows that end by then do not count.
	From Instant
	// Hold says that a window in which nothing left does not count. The Window then has the step.
	Hold bool
	// Past is, without Hold, the step of the window with the number 0 (see Calendar.Number). Before step 0, the maximum
	// is the first one.
	Past int64
}

// Number returns the number of the window with this end. Windows are numbered consecutively: from the one that ends at
// phase, or from the first given one.
func (c Calendar) Number(end Instant) int64 {
	if len(c.ends) == 0 {
		return int64((end - c.phase) / c.period)
	}
	if i := c.after(end - 1); i < len(c.ends) {
		return int64(i)
	}
	last := c.ends[len(c.ends)-1]
	return int64(len(c.ends)-1) + int64((end-last)/(last-c.ends[len(c.ends)-2]))
}

// Most returns the maximum of a window.
func (q Quota) Most(w Window) int64 {
	if len(q.Ramp.Steps) == 0 {
		return q.Max
	}
	return q.Ramp.Steps[q.Step(w)]
}

// Step returns the index in Ramp.Steps of the maximum of a window, 0 without a ramp.
func (q Quota) Step(w Window) int64 {
	return min(max(q.step(w), 0), max(0, int64(len(q.Ramp.Steps)-1)))
}

// After returns the window after w, as it begins if something left in w.
func (q Quota) After(w Window) Window {
	return Window{Ends: q.Calendar.skip(w.Ends, 1), Step: q.grown(w, true)}
}

func (q Quota) step(w Window) int64 {
	if q.Ramp.Hold || len(q.Ramp.Steps) == 0 {
		return w.Step
	}
	return q.Calendar.Number(w.Ends) + q.Ramp.Past
}

// grown returns the step of the window after w.
func (q Quota) grown(w Window, used bool) int64 {
	if q.Ramp.Hold && used && w.Ends > q.Ramp.From {
		return min(w.Step+1, int64(len(q.Ramp.Steps)-1))
	}
	return w.Step
}

// same returns in how many windows, from w on, the maximum is that of w, if something leaves in all of them.
func (q Quota) same(w Window) int64 {
	step := q.step(w)
	switch {
	case step >= int64(len(q.Ramp.Steps)-1):
		return math.MaxInt64
	case !q.Ramp.Hold:
		return 1 + max(0, -step)
	case w.Ends > q.Ramp.From:
		return 1
	}
	return 1 + q.Calendar.Number(q.Calendar.End(q.Ramp.From)) - q.Calendar.Number(w.Ends)
}

// carried returns the step at which q goes on after another quota o in the state w: the greatest whose maximum is not
// above the present one. A quota that did not grow is no reason to skip steps.
func (q Quota) carried(o Quota, w Window, now Instant) (step int64) {
	if !q.Ramp.Hold || len(o.Ramp.Steps) == 0 {
		return 0
	}
	most := o.Most(o.at(w, now))
	for step < int64(len(q.Ramp.Steps)-1) && q.Ramp.Steps[step+1] <= most {
		step++
	}
	return step
}
