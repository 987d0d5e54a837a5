package boltq

import (
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// newTallySets orders the sets that hold something, by when the first tally of each is looked at.
func newTallySets() heap[*tallySet] {
	return heap[*tallySet]{
		less:  func(a, b *tallySet) bool { return a.byCheck.top().checkAt < b.byCheck.top().checkAt },
		moved: func(s *tallySet, i int) { s.heapIndex = i + 1 },
	}
}

// keys is how many keys count against max_keys.
func (s *tallySet) keys() int64 { return int64(s.len() - s.overridesHeld) }

// setOverrides says which keys do not.
func (s *tallySet) setOverrides(overrides map[string]leaky.Limiter) {
	s.overrides, s.overridesHeld = nil, 0
	if len(overrides) > 0 {
		s.overrides = make(map[queue.LaneDigest]bool, len(overrides))
	}
	for key := range overrides {
		digest := queue.DigestLane(key)
		s.overrides[digest] = true
		if s.find(digest) != nil {
			s.overridesHeld++
		}
	}
}

// reorder puts a set where it belongs after its first tally may have changed.
func (e *Engine) reorder(s *tallySet) {
	switch {
	case s.len() == 0 && s.heapIndex > 0:
		e.tallySets.remove(s.heapIndex - 1)
	case s.len() == 0:
	case s.heapIndex == 0:
		e.tallySets.push(s)
	default:
		e.tallySets.fix(s.heapIndex - 1)
	}
}

// forgetExpiredTallies forgets what has expired among up to limit tallies, which are looked at when they would have expired when that
// was last known: what is taken again and again is so not moved each time. It reports whether there are more.
func (e *Engine) forgetExpiredTallies(now leaky.Instant, limit int) (more bool) {
	for ; limit > 0 && e.tallySets.len() > 0 && e.tallySets.top().byCheck.top().checkAt <= now; limit-- {
		e.checkFirst(e.tallySets.top(), now)
	}
	return e.tallySets.len() > 0 && e.tallySets.top().byCheck.top().checkAt <= now
}

// checkFirst forgets the first tally of a set, if it has expired.
func (e *Engine) checkFirst(s *tallySet, now leaky.Instant) {
	t := s.byCheck.top()
	if t.expired(now) {
		e.forgetTally(t)
		return
	}
	t.checkAt = max(t.expires, now.Add(queue.Horizon))
	s.byCheck.fix(0)
	e.reorder(s)
}

// keyChecks is how many tallies are looked at, at most, to find room for another key.
const keyChecks = 256

// noRoom returns the refusal of a new key under l if the rule holds as many as it may; nil if it does not. None is forgotten to make
// room: that would let somebody through above his rate.
func (e *Engine) noRoom(r *rule, key queue.LaneDigest, l leaky.Limiter, now leaky.Instant) *leaky.Decision {
	s := r.tallies
	if s.overrides[key] {
		return nil
	}
	for checked := 0; s.keys() >= r.keyLimit; checked++ {
		wait := s.byCheck.top().checkAt.Sub(now)
		if wait <= 0 && checked == keyChecks {
			wait = time.Second // more are looked at by then
		}
		if wait > 0 {
			return &leaky.Decision{Limit: l.Limit(), RetryAfter: wait}
		}
		e.checkFirst(s, now)
	}
	return nil
}
