package boltq

import "github.com/penstock/penstock/queue"

// waitList holds the waiting jobs of a lane in order of turn: those of each priority in a
// FIFO of their own, so that one among many of lower priority costs no more than
// another. What comes back into the middle of one stands beside it instead: nothing is
// moved for it. Most lanes have but the lowest.
type waitList struct {
	low   fifo
	extra *waitListExtra // nil while it would hold nothing
}

type waitListExtra struct {
	high   [queue.MaxPriority]fifo // above the lowest
	middle sorted[*job]            // of any priority
}

func byTurn(a, b *job) bool { return a.turn < b.turn }

// needExtra returns the rest of the tiers, made for what is about to come into it.
func (t *waitList) needExtra() *waitListExtra {
	if t.extra == nil {
		t.extra = &waitListExtra{middle: sorted[*job]{less: byTurn}}
	}
	return t.extra
}

func (t *waitList) fifoOf(priority int) *fifo {
	if priority == 0 {
		return &t.low
	}
	return &t.needExtra().high[priority-1]
}

func (t *waitList) len() int {
	if t.extra == nil {
		return t.low.n
	}
	return t.low.n + t.extra.above(0) + t.extra.middle.len()
}

// above is how many of the FIFOs' jobs have a higher priority.
func (m *waitListExtra) above(priority int) (n int) {
	for i := priority; i < len(m.high); i++ {
		n += m.high[i].n
	}
	return n
}

func (t *waitList) front() *job {
	m := t.extra
	if m == nil {
		return t.low.front()
	}
	var first *job
	for p := queue.MaxPriority; p >= 0 && first == nil; p-- {
		if f := t.fifoOf(p); f.n > 0 {
			first = f.front()
		}
	}
	if m.middle.len() > 0 && (first == nil || m.middle.top().turn < first.turn) {
		return m.middle.top()
	}
	return first
}

func (t *waitList) insert(j *job) {
	if !t.fifoOf(j.priority()).insert(j) {
		t.needExtra().middle.push(j)
	}
}

// remove takes j out, which is in it.
func (t *waitList) remove(j *job) {
	if f := t.fifoOf(j.priority()); !f.remove(j) {
		t.extra.middle.remove(j)
	}
	if m := t.extra; m != nil && m.above(0) == 0 && m.middle.len() == 0 {
		t.extra = nil
	}
}

// rank returns how many wait before j.
func (t *waitList) rank(j *job) int {
	if f := &t.low; t.extra == nil && f.n > 0 && f.at(f.n-1) == j { // mostly it is the last
		return f.n - 1
	}
	return t.search(j.turn)
}

// search returns how many wait before a turn.
func (t *waitList) search(turn int64) int {
	m := t.extra
	p := priorityOf(turn)
	switch {
	case m == nil && p == 0:
		return t.low.search(turn)
	case m == nil:
		return 0
	}
	return m.above(p) + t.fifoOf(p).search(turn) + m.middle.before(func(j *job) bool { return j.turn >= turn })
}

// of yields the jobs of a priority from a turn on.
func (t *waitList) of(priority int, turn int64) func(yield func(*job) bool) {
	return func(yield func(*job) bool) {
		if t.extra == nil && priority > 0 {
			return
		}
		f := t.fifoOf(priority)
		i := f.search(turn)
		if m := t.extra; m != nil {
			turn = max(turn, int64(queue.MaxPriority-priority)<<priorityShift)
			for j := range m.middle.from(func(j *job) bool { return j.turn >= turn }) {
				if j.priority() != priority {
					break
				}
				for ; i < f.n && f.at(i).turn < j.turn; i++ {
					if !yield(f.at(i)) {
						return
					}
				}
				if !yield(j) {
					return
				}
			}
		}
		for ; i < f.n; i++ {
			if !yield(f.at(i)) {
				return
			}
		}
	}
}

// from yields the jobs from a turn on.
func (t *waitList) from(turn int64) func(yield func(*job) bool) {
	return func(yield func(*job) bool) {
		for p := queue.MaxPriority; p >= 0; p-- {
			for j := range t.of(p, turn) {
				if !yield(j) {
					return
				}
			}
		}
	}
}

// before yields the jobs whose turns, without their priority, are before one.
func (t *waitList) before(base int64) func(yield func(*job) bool) {
	return func(yield func(*job) bool) {
		for p := queue.MaxPriority; p >= 0; p-- {
			for j := range t.of(p, 0) {
				if j.turnBase() >= base {
					break
				}
				if !yield(j) {
					return
				}
			}
		}
	}
}
