package boltq

import "github.com/penstock/penstock/queue"

// tiers holds the waiting jobs of a lane in order of turn: those of each priority in a
// FIFO of their own, so that one among many of lower priority costs no more than
// another. What comes back into the middle of one stands beside it instead: nothing is
// moved for it. Most lanes have but the lowest.
type tiers struct {
	low  fifo
	more *moreTiers // nil while it would hold nothing
}

type moreTiers struct {
	high [queue.MaxPriority]fifo // above the lowest
	side sorted[*job]            // of any priority
}

func byTurn(a, b *job) bool { return a.turn < b.turn }

// need returns the rest of the tiers, made for what is about to come into it.
func (t *tiers) need() *moreTiers {
	if t.more == nil {
		t.more = &moreTiers{side: sorted[*job]{less: byTurn}}
	}
	return t.more
}

func (t *tiers) tier(priority int) *fifo {
	if priority == 0 {
		return &t.low
	}
	return &t.need().high[priority-1]
}

func (t *tiers) len() int {
	if t.more == nil {
		return t.low.n
	}
	return t.low.n + t.more.above(0) + t.more.side.len()
}

// above is how many of the FIFOs' jobs have a higher priority.
func (m *moreTiers) above(priority int) (n int) {
	for i := priority; i < len(m.high); i++ {
		n += m.high[i].n
	}
	return n
}

func (t *tiers) front() *job {
	m := t.more
	if m == nil {
		return t.low.front()
	}
	var first *job
	for p := queue.MaxPriority; p >= 0 && first == nil; p-- {
		if f := t.tier(p); f.n > 0 {
			first = f.front()
		}
	}
	if m.side.len() > 0 && (first == nil || m.side.top().turn < first.turn) {
		return m.side.top()
	}
	return first
}

func (t *tiers) insert(j *job) {
	if !t.tier(j.priority()).insert(j) {
		t.need().side.push(j)
	}
}

// remove takes j out, which is in it.
func (t *tiers) remove(j *job) {
	if f := t.tier(j.priority()); !f.remove(j) {
		t.more.side.remove(j)
	}
	if m := t.more; m != nil && m.above(0) == 0 && m.side.len() == 0 {
		t.more = nil
	}
}

// rank returns how many wait before j.
func (t *tiers) rank(j *job) int {
	if f := &t.low; t.more == nil && f.n > 0 && f.at(f.n-1) == j { // mostly it is the last
		return f.n - 1
	}
	return t.search(j.turn)
}

// search returns how many wait before a turn.
func (t *tiers) search(turn int64) int {
	m := t.more
	p := priorityOf(turn)
	switch {
	case m == nil && p == 0:
		return t.low.search(turn)
	case m == nil:
		return 0
	}
	return m.above(p) + t.tier(p).search(turn) + m.side.before(func(j *job) bool { return j.turn >= turn })
}

// of yields the jobs of a priority from a turn on.
func (t *tiers) of(priority int, turn int64) func(yield func(*job) bool) {
	return func(yield func(*job) bool) {
		if t.more == nil && priority > 0 {
			return
		}
		f := t.tier(priority)
		i := f.search(turn)
		if m := t.more; m != nil {
			turn = max(turn, int64(queue.MaxPriority-priority)<<urgency)
			for j := range m.side.from(func(j *job) bool { return j.turn >= turn }) {
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
func (t *tiers) from(turn int64) func(yield func(*job) bool) {
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
func (t *tiers) before(base int64) func(yield func(*job) bool) {
	return func(yield func(*job) bool) {
		for p := queue.MaxPriority; p >= 0; p-- {
			for j := range t.of(p, 0) {
				if j.base() >= base {
					break
				}
				if !yield(j) {
					return
				}
			}
		}
	}
}
