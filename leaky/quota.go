package leaky

import "sort"

// Calendar divides time into consecutive windows by their ends: an instant is in the window with the first end after
// it.
type Calendar struct {
	period, phase Instant   // equal windows, which end at phase + k x period
	ends          []Instant // other windows, ascending
}

// Every returns the calendar of equal windows that end at phase + k x period. It panics if period is not positive.
func Every(period, phase Instant) Calendar {
	if period <= 0 {
		panic("leaky: window without length")
	}
	return Calendar{period: period, phase: phase}
}

// Ending returns the calendar of windows that end at the given instants, at least two and ascending. Further windows
// are as long as the last one, so that the owner has time to extend the list.
func Ending(ends []Instant) Calendar { return Calendar{ends: ends} }

// Fixed returns the arguments of Every, or 0, 0 if the windows are not equal.
func (c Calendar) Fixed() (period, phase Instant) { return c.period, c.phase }

// Ends returns the argument of Ending.
func (c Calendar) Ends() []Instant { return c.ends }

// End returns the end of the window that contains t: the first end after t.
func (c Calendar) End(t Instant) Instant {
	if len(c.ends) == 0 {
		return t + c.period - floorMod(t-c.phase, c.period)
	}
	if i := c.after(t); i < len(c.ends) {
		return c.ends[i]
	}
	last := c.ends[len(c.ends)-1]
	step := last - c.ends[len(c.ends)-2]
	return t + step - floorMod(t-last, step)
}

// Left returns how many of the given ends are after t, or -1 for equal windows.
func (c Calendar) Left(t Instant) int {
	if len(c.ends) == 0 {
		return -1
	}
	return len(c.ends) - c.after(t)
}

func (c Calendar) after(t Instant) int {
	return sort.Search(len(c.ends), func(i int) bool { return c.ends[i] > t })
}

// skip returns the end of the window k windows after the one that ends at end.
func (c Calendar) skip(end Instant, k int64) Instant {
	if len(c.ends) == 0 {
		return min(end+Instant(min(k, int64(farthest)/int64(c.period)))*c.period, farthest)
	}
	i := c.after(end - 1)
	if j := int64(i) + k; j < int64(len(c.ends)) {
		return c.ends[j]
	}
	last := c.ends[len(c.ends)-1]
	step := last - c.ends[len(c.ends)-2]
	base := max(end, last)
	k -= int64(max(0, len(c.ends)-1-i))
	return min(base+Instant(min(k, int64(farthest)/int64(step)))*step, farthest)
}

func floorMod(a, m Instant) Instant {
	if r := a % m; r < 0 {
		return r + m
	} else {
		return r
	}
}

// Quota is a rule beside a Pacer: departures with a total cost of at most Max in each window of a calendar. Unlike a
// Pacer it does not limit a span across the end of a window: two quotas may leave there back to back, as fast as the
// pace allows.
type Quota struct {
	Max      int64 // at least 1
	Calendar Calendar
	Ramp     Ramp // if it has steps, they take the place of Max
}

// Window is the state of a Quota: how much was used in the window that ends at Ends, and the window's step in a Ramp
// that holds. The zero Window has never let anything out.
type Window struct {
	Ends Instant
	Used int64
	Step int64
}

// mostUsed is above any Used, and far from overflowing sums.
const mostUsed = 1 << 40

// Next returns the earliest instant, not before now, at which the quota lets a job out. Once a job was let out ahead
// of time, into the coming window, no other may leave in the present window: it may have been full, and is no longer
// counted.
func (q Quota) Next(w Window, now Instant) Instant { return max(now, q.Free(w, now)) }

// Free returns when the quota began, or will begin, to let the next job out: the end of the last window, if that was
// used up. Otherwise it returns 0.
func (q Quota) Free(w Window, now Instant) Instant {
	w = q.Repair(w, now)
	if w.Used >= q.Most(w) {
		return w.Ends
	}
	if end := q.Calendar.End(now); w.Ends > end {
		return end
	}
	return 0
}

// Affords reports whether the window of a departure at d, which Next allows, has enough left for it.
func (q Quota) Affords(w Window, d Instant, cost int64) bool {
	w = q.at(w, d)
	most := q.Most(w)
	return w.Used+min(cost, most) <= most
}

// Take counts a departure at d, which Next allows, and reports whether its window had enough left. If not, the rest of
// the window is forfeited: the job is then the first of the coming window, and later jobs cannot overtake it. A job
// that costs more than Max uses up a whole window.
func (q Quota) Take(w *Window, d Instant, cost int64) bool {
	afford := q.Affords(*w, d, cost)
	*w = q.at(*w, d)
	if most := q.Most(*w); afford {
		w.Used += min(cost, most)
	} else {
		w.Used = max(w.Used, most)
	}
	return afford
}

// at returns w as of d.
func (q Quota) at(w Window, d Instant) Window {
	if w = q.Repair(w, d); d >= w.Ends {
		return Window{Ends: q.Calendar.End(d), Step: q.grown(w, w.Used > 0)}
	}
	return w
}

// At returns the window of a departure at d, with what was used of it.
func (q Quota) At(w Window, d Instant) Window { return q.at(w, d) }

// GiveBack undoes an unused departure at d if its window is the present one.
func (q Quota) GiveBack(w *Window, d Instant, cost int64) {
	if q.Calendar.End(d) == w.Ends {
		w.Used = max(0, w.Used-min(cost, q.Most(*w)))
	}
}

// TakeAgain undoes GiveBack: it counts a departure at d if its window is the present one, even beyond the quota.
func (q Quota) TakeAgain(w *Window, d Instant, cost int64) {
	if q.Calendar.End(d) == w.Ends {
		w.Used = min(mostUsed, w.Used+min(cost, q.Most(*w)))
	}
}

// Follow returns the state of q when it replaces the quota o in the state w: used remains used. If a job was let out
// ahead, into the coming window, the present window was full, or over except for that job. It stays so, and the job
// counts where it is, if both quotas have that window.
func (q Quota) Follow(o Quota, w Window, now Instant) Window {
	w = o.Repair(w, now)
	end, step := q.Calendar.End(now), q.carried(o, w, now)
	switch {
	case w.Ends <= now:
		return Window{Step: step}
	case w.Ends == o.Calendar.End(now):
		return Window{Ends: end, Used: w.Used, Step: step}
	case w.Ends == q.Calendar.End(end):
		w.Step = step
		return w
	}
	w = Window{Ends: end, Used: w.Used, Step: step}
	w.Used = max(w.Used, q.Most(w))
	return w
}

// ETA returns when a job departs that has a cost of ahead before it. It assumes that they use up one window after the
// other and leave the last of them at p's rate.
func (q Quota) ETA(p Pacer, w Window, now Instant, ahead int64) Instant {
	begins, rest := q.Turn(w, now, ahead)
	if rest < 0 {
		return now
	}
	return p.ETA(Bucket{}, begins, rest)
}

// Turn returns when the window begins in which a job departs that has a cost of ahead before it, and how much of that
// departs in the same window. It assumes that they use up one window after the other. For the present window, rest is
// -1.
func (q Quota) Turn(w Window, now Instant, ahead int64) (begins Instant, rest int64) {
	w = q.at(w, now)
	over := ahead - max(0, q.Most(w)-w.Used)
	if over < 0 {
		return now, -1
	}
	for {
		next := q.After(w)
		most, same := q.Most(next), q.same(next)
		if n := over / most; n < same {
			return q.Calendar.skip(w.Ends, n), over % most
		}
		over -= same * most
		w = Window{Ends: q.Calendar.skip(w.Ends, same), Step: next.Step}
	}
}

// Repair returns w with Ends no later than the end of the next window, as every honest grant leaves it: a horizon is
// shorter than a window. Engines call it at the start of a visit and when the quota changes. Then neither a planted
// value nor a changed calendar blocks a quota for good, and what was used in the present window still counts. Used may
// exceed Max after Max was lowered; raising it again gives nothing back.
func (q Quota) Repair(w Window, now Instant) Window {
	if end := q.Calendar.End(now); w.Ends > end && w.Ends != q.Calendar.End(end) {
		w.Ends = end
	}
	w.Used = min(max(w.Used, 0), mostUsed)
	w.Step = min(max(w.Step, 0), max(0, int64(len(q.Ramp.Steps)-1)))
	return w
}
