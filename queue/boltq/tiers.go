package boltq

import "github.com/penstock/penstock/queue"

// tiers holds the waiting jobs of a lane in order of turn: those of each priority in a
// FIFO of their own, so that one among many of lower priority costs no more than
// another. Most lanes have but the lowest.
type tiers struct {
	low  fifo
	high *[queue.MaxPriority]fifo // above the lowest; nil when they hold nothing
}

func (t *tiers) tier(priority int) *fifo {
	if priority == 0 {
		return &t.low
	}
	if t.high == nil {
		t.high = &[queue.MaxPriority]fifo{}
	}
	return &t.high[priority-1]
}

func (t *tiers) len() int { return t.low.n + t.above(0) }

// above is how many have a higher priority.
func (t *tiers) above(priority int) (n int) {
	if t.high != nil {
		for i := priority; i < len(t.high); i++ {
			n += t.high[i].n
		}
	}
	return n
}

func (t *tiers) front() *job {
	if t.high != nil {
		for i := len(t.high) - 1; i >= 0; i-- {
			if t.high[i].n > 0 {
				return t.high[i].front()
			}
		}
	}
	return t.low.front()
}

func (t *tiers) insert(j *job) { t.tier(j.priority()).insert(j) }

// remove takes j out, which is in it.
func (t *tiers) remove(j *job) {
	f := t.tier(j.priority())
	if f.front() == j {
		f.pop()
	} else {
		f.remove(j)
	}
	if t.high != nil && t.above(0) == 0 {
		t.high = nil
	}
}

// rank returns how many wait before j.
func (t *tiers) rank(j *job) int {
	if f := &t.low; f.n > 0 && f.at(f.n-1) == j { // mostly it is the last
		return t.above(0) + f.n - 1
	}
	return t.search(j.turn)
}

// search returns how many wait before a turn.
func (t *tiers) search(turn int64) int {
	p := priorityOf(turn)
	if p == 0 {
		return t.above(0) + t.low.search(turn)
	}
	if t.high == nil {
		return 0
	}
	return t.above(p) + t.high[p-1].search(turn)
}
