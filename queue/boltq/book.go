package boltq

import (
	"maps"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// tallySet is what was taken from a rule, under all its keys, since the rule was made, was reset or got another algorithm.
type tallySet struct {
	number    uint64 // which the tallies have in the file
	shards    [32]tallyShard
	byCheck   tallyHeap
	heapIndex int // among the sets that hold something, from 1 on; 0 if it does not
	// overrides are the keys that have bounds of their own, which do not count against max_keys; overridesHeld of them are held.
	overrides     map[queue.LaneDigest]bool
	overridesHeld int
}

// tallyShard is some of a book's tallies, by the digest of the key. A map keeps the size that it had, and so is made anew when few of many
// are left: of one for all of a million keys that would hold up everybody.
type tallyShard struct {
	tallies map[queue.LaneDigest]*tally
	peak    int // that there were at once since the map was made
}

func (s *tallySet) shard(key queue.LaneDigest) *tallyShard {
	return &s.shards[int(key[0])%len(s.shards)]
}

func (s *tallySet) find(key queue.LaneDigest) *tally { return s.shard(key).tallies[key] }

func (s *tallySet) len() int { return s.byCheck.len() }

func (s *tallySet) put(t *tally) {
	h := s.shard(t.digest)
	if h.tallies == nil {
		h.tallies = map[queue.LaneDigest]*tally{}
	}
	h.tallies[t.digest] = t
	h.peak = max(h.peak, len(h.tallies))
	if s.overrides[t.digest] {
		s.overridesHeld++
	}
	s.byCheck.push(t)
}

func (s *tallySet) remove(t *tally) {
	s.byCheck.remove(t)
	if s.overrides[t.digest] {
		s.overridesHeld--
	}
	h := s.shard(t.digest)
	delete(h.tallies, t.digest)
	if n := len(h.tallies); h.peak > smallMap && n < h.peak/16 {
		few := make(map[queue.LaneDigest]*tally, 2*n)
		maps.Copy(few, h.tallies)
		h.tallies, h.peak = few, max(n, smallMap)
	}
}

func (e *Engine) newTallySet() *tallySet {
	e.lastTallySet++
	return &tallySet{number: e.lastTallySet}
}

// tallySetFor is that of a rule which has such an algorithm from now on: what another one counted says nothing to it.
func (e *Engine) tallySetFor(old *rule, a leaky.Algorithm) *tallySet {
	if old != nil && old.Algorithm == a {
		return old.tallies
	}
	return e.newTallySet()
}

// discardTallies makes rubbish of what nobody asks any more, however much it is.
func (e *Engine) discardTallies(s *tallySet) {
	if s.len() > 0 {
		e.garbage = append(e.garbage, &garbage{tallies: s})
	}
}

// tallyAt returns the tally of a key, nil if nothing was taken that still counts.
func (e *Engine) tallyAt(s *tallySet, key queue.LaneDigest, now leaky.Instant) *tally {
	t := s.find(key)
	if t != nil && t.expired(now) {
		e.forgetTally(t)
		return nil
	}
	return t
}

// tallyOf returns the tally of a key, which is made if there is none.
func (e *Engine) tallyOf(s *tallySet, key queue.LaneDigest, now leaky.Instant) *tally {
	if t := e.tallyAt(s, key, now); t != nil {
		return t
	}
	return newTally(s, key)
}

func newTally(s *tallySet, key queue.LaneDigest) *tally {
	return &tally{set: s, digest: key, heapIndex: -1}
}

// insertTally puts a tally where it is found, once something was taken.
func (e *Engine) insertTally(t *tally) {
	if t.heapIndex >= 0 {
		return
	}
	e.lastTally++
	t.number, t.checkAt = e.lastTally, t.expires
	e.putTally(t)
}

func (e *Engine) putTally(t *tally) {
	t.set.put(t)
	e.reorder(t.set)
}

func (e *Engine) forgetTally(t *tally) {
	t.gone = true
	t.set.remove(t)
	e.reorder(t.set)
	if t.onFile {
		e.droppedTallies.add(t.number)
	}
}

// expiredTalliesMax is how many tallies one call looks at, beside the two of each question.
const expiredTalliesMax = 100

// markDirty marks a tally as not on file.
func (e *Engine) markDirty(t *tally) {
	e.insertTally(t)
	if !t.dirty {
		t.dirty = true
		e.dirtyTallies.add(t)
		e.wantSave()
	}
}
