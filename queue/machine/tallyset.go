package machine

import (
	"maps"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// tallySet is everything that was taken from one rule, under all keys, since the rule was created, reset, or given
// another algorithm.
type tallySet struct {
	number    uint64 // by which tallies refer to it in the file
	shards    [32]tallyShard
	byCheck   tallyHeap
	heapIndex int // in Machine.tallySets, counted from 1; 0 if the set is empty
	// overrides are the keys with limits of their own, which do not count against max_keys; overridesHeld is how many
	// of them are in the set.
	overrides     map[queue.LaneDigest]bool
	overridesHeld int
	// lost are the keys that lost their overrides, and until when they count: then they are fresh by the rule's own
	// numbers. Their tallies stay for longer, since the numbers may change. lostUntil is the first of these instants,
	// or never.
	lost      map[queue.LaneDigest]leaky.Instant
	lostUntil leaky.Instant
}

// tallyShard holds some of a set's tallies, by digest of the key. A Go map never shrinks, so it is copied when few of
// many are left. Copying one map of a million keys would block the machine.
type tallyShard struct {
	tallies map[queue.LaneDigest]*tally
	peak    int // the maximum number of tallies since the map was made
}

func (s *tallySet) shard(key queue.LaneDigest) *tallyShard {
	return &s.shards[int(key[0])%len(s.shards)]
}

func (s *tallySet) find(key queue.LaneDigest) *tally { return s.shard(key).tallies[key] }

func (s *tallySet) len() int { return s.byCheck.len() }

func (s *tallySet) put(t *tally) {
	shard := s.shard(t.digest)
	if shard.tallies == nil {
		shard.tallies = map[queue.LaneDigest]*tally{}
	}
	shard.tallies[t.digest] = t
	shard.peak = max(shard.peak, len(shard.tallies))
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
	shard := s.shard(t.digest)
	delete(shard.tallies, t.digest)
	if n := len(shard.tallies); shard.peak > smallMap && n < shard.peak/16 {
		few := make(map[queue.LaneDigest]*tally, 2*n)
		maps.Copy(few, shard.tallies)
		shard.tallies, shard.peak = few, max(n, smallMap)
	}
}

func (m *Machine) newTallySet() *tallySet {
	m.lastTallySet++
	return &tallySet{number: m.lastTallySet}
}

// tallySetFor returns the set for a rule with that algorithm. It is a new set if old has another algorithm, whose
// counts are meaningless to this one.
func (m *Machine) tallySetFor(old *rule, a leaky.Algorithm) *tallySet {
	if old != nil && old.Algorithm == a {
		return old.tallies
	}
	return m.newTallySet()
}

// discardTallies makes garbage of a set that is no longer in use.
func (m *Machine) discardTallies(s *tallySet) {
	if s.len() > 0 {
		m.garbage = append(m.garbage, &garbage{tallies: s, commit: m.current.Number})
	}
}

// tallyAt returns the tally of a key, or nil if nothing counts there any more.
func (m *Machine) tallyAt(s *tallySet, key queue.LaneDigest, now leaky.Instant) *tally {
	t := s.find(key)
	if t != nil && t.expired(now) {
		m.forgetTally(t)
		return nil
	}
	return t
}

// tallyOf returns the tally of a key, created if missing.
func (m *Machine) tallyOf(s *tallySet, key queue.LaneDigest, now leaky.Instant) *tally {
	if t := m.tallyAt(s, key, now); t != nil {
		return t
	}
	return m.newTally(s, key)
}

// newTally returns a tally that is not inserted yet, reusing a forgotten one if possible: keys of a fast rule come and
// go with every take.
func (m *Machine) newTally(s *tallySet, key queue.LaneDigest) *tally {
	last := len(m.spareTallies) - 1
	if last < 0 {
		return &tally{set: s, digest: key, heapIndex: -1}
	}
	t := m.spareTallies[last]
	m.spareTallies = m.spareTallies[:last]
	*t = tally{set: s, digest: key, heapIndex: -1, dirty: t.dirty}
	return t
}

// insertTally inserts a tally once something was taken.
func (m *Machine) insertTally(t *tally) {
	if t.heapIndex >= 0 {
		return
	}
	m.lastTally++
	t.number, t.checkAt = m.lastTally, t.expires
	m.putTally(t)
}

func (m *Machine) putTally(t *tally) {
	t.set.put(t)
	m.reorder(t.set)
}

func (m *Machine) forgetTally(t *tally) {
	t.gone = true
	t.set.remove(t)
	m.reorder(t.set)
	switch {
	case t.onFile:
		m.droppedTallies.add(t.number)
	case !t.inCommit && len(m.spareTallies) < expiredTalliesMax:
		m.spareTallies = append(m.spareTallies, t)
	}
}

// expiredTalliesMax is how many tallies one call checks for expiry, in addition to two for each take.
const expiredTalliesMax = 100

// markDirty notes that a tally differs from the file.
func (m *Machine) markDirty(t *tally) {
	m.insertTally(t)
	if !t.dirty {
		t.dirty = true
		m.dirtyTallies.add(t)
		m.unsaved = true
	}
}

// newTallySets orders the sets that are not empty by when their first tally is to be checked.
func newTallySets() heap[*tallySet] {
	return heap[*tallySet]{
		key:   func(s *tallySet) heapKey { return heapKey{at: int64(s.byCheck.top().checkAt)} },
		moved: func(s *tallySet, i int) { s.heapIndex = i + 1 },
	}
}

func (s *tallySet) keys() int64 { return int64(s.len() - s.overridesHeld) }

// setOverrides sets which keys have overrides, and so do not count against max_keys. Keys that lose their override
// count again, by the rule's own limiter.
func (s *tallySet) setOverrides(overrides map[string]leaky.Limiter, own leaky.Limiter, now leaky.Instant) {
	before := s.overrides
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
	for digest := range before {
		if !s.overrides[digest] && s.find(digest) != nil {
			if s.lost == nil {
				s.lost = map[queue.LaneDigest]leaky.Instant{}
			}
			s.lost[digest] = 0
		}
	}
	for digest := range s.lost {
		if t := s.find(digest); t == nil || s.overrides[digest] {
			delete(s.lost, digest)
		} else {
			s.lost[digest] = t.stateFor(own).Expires(now)
		}
	}
	s.findLostUntil()
}

func (s *tallySet) findLostUntil() {
	s.lostUntil = never
	for _, until := range s.lost {
		s.lostUntil = min(s.lostUntil, until)
	}
}

// forgetLost forgets keys that lost their overrides and no longer count.
func (m *Machine) forgetLost(r *rule, now leaky.Instant) {
	s := r.tallies
	if len(s.lost) == 0 || now < s.lostUntil {
		return
	}
	for digest, until := range s.lost {
		t := s.find(digest)
		if t != nil && until <= now {
			until = t.stateFor(r.limiter).Expires(now) // more may have been taken since
		}
		switch {
		case t == nil:
			delete(s.lost, digest)
		case until > now:
			s.lost[digest] = until
		default:
			m.forgetTally(t)
			delete(s.lost, digest)
		}
	}
	s.findLostUntil()
}

// asksAgain reports whether a key asks for room like a new one although its tally exists: it lost its override, and is
// fresh by the rule's own limiter.
func (s *tallySet) asksAgain(t *tally, l leaky.Limiter, now leaky.Instant) bool {
	until, lost := s.lost[t.digest]
	return lost && until <= now && t.stateFor(l).Expires(now) <= now
}

// checkSooner advances the check of a tally to when it expires, if that is earlier.
func (m *Machine) checkSooner(t *tally) {
	if t.heapIndex >= 0 && t.expires < t.checkAt {
		t.checkAt = t.expires
		t.set.byCheck.fix(int(t.heapIndex))
		m.reorder(t.set)
	}
}

// firstCounted returns the tally that is checked first among those without an override, from the heap's i-th on, or
// nil. Few tallies have an override, so little of the heap is searched.
func (s *tallySet) firstCounted(i int) *tally {
	if i >= s.len() {
		return nil
	}
	t := s.byCheck.at(i)
	if !s.overrides[t.digest] {
		return t
	}
	left, right := s.firstCounted(2*i+1), s.firstCounted(2*i+2)
	if left == nil || right != nil && right.checkAt < left.checkAt {
		return right
	}
	return left
}

// reorder moves a set to its place after its first tally may have changed.
func (m *Machine) reorder(s *tallySet) {
	switch {
	case s.len() == 0 && s.heapIndex > 0:
		m.tallySets.remove(s.heapIndex - 1)
	case s.len() == 0:
	case s.heapIndex == 0:
		m.tallySets.push(s)
	default:
		m.tallySets.fix(s.heapIndex - 1)
	}
}

// forgetExpiredTallies checks up to limit due tallies and forgets those that have expired. A tally is due when it would
// have expired as of its last check, so a tally in constant use is not moved with each take. more is set if others are
// due.
func (m *Machine) forgetExpiredTallies(now leaky.Instant, limit int) (more bool) {
	for ; limit > 0 && m.tallySets.len() > 0 && m.tallySets.top().byCheck.top().checkAt <= now; limit-- {
		m.checkFirst(m.tallySets.top(), now)
	}
	return m.tallySets.len() > 0 && m.tallySets.top().byCheck.top().checkAt <= now
}

// checkFirst forgets the first tally of a set, if it has expired.
func (m *Machine) checkFirst(s *tallySet, now leaky.Instant) {
	t := s.byCheck.top()
	if t.expired(now) {
		m.forgetTally(t)
		return
	}
	t.checkAt = max(t.expires, now.Add(queue.Horizon))
	s.byCheck.fix(0)
	m.reorder(s)
}

// keyChecks is the maximum number of tallies checked to find room for another key.
const keyChecks = 256

// noRoom returns the refusal of a new key under l if the rule holds as many keys as it may, else nil. No key that still
// counts is forgotten to make room: that would let it exceed its rate.
func (m *Machine) noRoom(r *rule, key queue.LaneDigest, l leaky.Limiter, now leaky.Instant) *leaky.Decision {
	s := r.tallies
	if s.overrides[key] {
		return nil
	}
	if s.keys() >= r.keyLimit {
		m.forgetLost(r, now)
	}
	for checked := 0; s.keys() >= r.keyLimit; checked++ {
		var wait time.Duration
		switch due := s.byCheck.top().checkAt <= now; {
		case due && checked == keyChecks:
			wait = time.Second // more tallies are checked by then
		case !due:
			wait = s.firstCounted(0).checkAt.Sub(now)
			if len(s.lost) > 0 {
				wait = min(wait, max(s.lostUntil.Sub(now), time.Microsecond))
			}
		}
		if wait > 0 {
			return &leaky.Decision{Limit: l.Limit(), RetryAfter: wait}
		}
		m.checkFirst(s, now)
	}
	return nil
}

// tallyToAsk returns the tally of a key that is asked for a take, or nil if nothing counts there, or the refusal of a
// new key for which the rule has no room.
func (m *Machine) tallyToAsk(
	r *rule, key queue.LaneDigest, l leaky.Limiter, now leaky.Instant,
) (t *tally, refused *leaky.Decision) {
	t = m.tallyAt(r.tallies, key, now)
	if t != nil && !r.tallies.asksAgain(t, l, now) {
		return t, nil
	}
	if refused = m.noRoom(r, key, l, now); refused != nil {
		return nil, refused
	}
	return m.tallyAt(r.tallies, key, now), nil // it may have been forgotten to make room
}

// savedTallies is the minimum number of tallies that one commit saves for SaveTallies; it saves a sixteenth of all
// unsaved tallies if that is more. Appends wait for such a commit.
const savedTallies = 500

// SaveTallies saves some of what Take took and no other commit keeps. It returns the commit, or 0 if nothing is
// unsaved, and whether to call it again at once.
func (m *Machine) SaveTallies() (wait uint64, more bool) {
	if m.unsaved = false; m.dirtyTallies.n+m.droppedTallies.n+len(m.owed) == 0 {
		return 0, false
	}
	for _, t := range m.dirtyTallies.take(max(savedTallies, m.dirtyTallies.n/16)) {
		if t.gone {
			t.dirty = false
		} else if t.dirty {
			m.addTally(t)
		}
	}
	m.unsaved = m.dirtyTallies.n > 0
	return m.wait(), m.dirtyTallies.n >= savedTallies || m.droppedTallies.n >= commitForgets
}

// UnsavedTallies reports whether tallies have changed since its last call and need SaveTallies.
func (m *Machine) UnsavedTallies() (unsaved bool) {
	unsaved, m.unsaved = m.unsaved, false
	return unsaved
}

// NextTallyCheck returns when the next tally may have expired; any is false if there are no tallies.
func (m *Machine) NextTallyCheck() (at leaky.Instant, any bool) {
	if m.tallySets.len() == 0 {
		return 0, false
	}
	return m.tallySets.top().byCheck.top().checkAt, true
}

// ForgetExpiredTallies forgets some expired tallies, and reports whether to call it again.
func (m *Machine) ForgetExpiredTallies(now leaky.Instant) (more bool) {
	return m.forgetExpiredTallies(now, expiredTalliesTurn)
}

// expiredTalliesTurn is how many tallies are checked for expiry at a time.
const expiredTalliesTurn = 500
