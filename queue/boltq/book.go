package boltq

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// book is what was taken from a rule, under all its keys, since the rule was made, was reset or got another algorithm.
type book struct {
	number  uint64                      // which the tallies have in the file
	tallies map[queue.LaneDigest]*tally // by the digest of the key
	most    int                         // that there were at once since the map was made
}

func (e *Engine) newBook() *book {
	e.lastBook++
	return bookOf(e.lastBook)
}

func bookOf(number uint64) *book {
	return &book{number: number, tallies: map[queue.LaneDigest]*tally{}}
}

// bookFor is that of a rule which has such an algorithm from now on: what another one counted says nothing to it.
func (e *Engine) bookFor(old *rule, a leaky.Algorithm) *book {
	if old != nil && old.Algorithm == a {
		return old.book
	}
	return e.newBook()
}

// discardBook makes rubbish of what nobody asks any more, however much it is.
func (e *Engine) discardBook(s *book) {
	if len(s.tallies) > 0 {
		e.garbage = append(e.garbage, &rubbish{book: s})
	}
}

func newTallies() heap[*tally] {
	return heap[*tally]{less: func(a, b *tally) bool { return a.looks < b.looks }, moved: func(t *tally, i int) { t.place = int32(i) }}
}

// tallyAt returns the tally of a key, nil if nothing was taken that still counts.
func (e *Engine) tallyAt(s *book, key queue.LaneDigest, now leaky.Instant) *tally {
	t := s.tallies[key]
	if t != nil && t.expired(now) {
		e.forgetTally(t)
		return nil
	}
	return t
}

// tallyOf returns the tally of a key, which is made if there is none.
func (e *Engine) tallyOf(s *book, key queue.LaneDigest, now leaky.Instant) *tally {
	if t := e.tallyAt(s, key, now); t != nil {
		return t
	}
	return newTally(s, key)
}

func newTally(s *book, key queue.LaneDigest) *tally { return &tally{book: s, digest: key, place: -1} }

// lodge puts a tally where it is found, once something was taken.
func (e *Engine) lodge(t *tally) {
	if t.place >= 0 {
		return
	}
	e.lastTally++
	t.number, t.looks = e.lastTally, t.expires
	t.book.tallies[t.digest] = t
	t.book.most = max(t.book.most, len(t.book.tallies))
	e.tallies.push(t)
}

// forgetTally forgets a tally. A map keeps the size that it had, so it is made anew when few of many are left.
func (e *Engine) forgetTally(t *tally) {
	t.gone = true
	e.tallies.remove(int(t.place))
	s := t.book
	delete(s.tallies, t.digest)
	if n := len(s.tallies); s.most > fewLanes && n < s.most/16 {
		tallies := make(map[queue.LaneDigest]*tally, 2*n)
		for key, t := range s.tallies {
			tallies[key] = t
		}
		s.tallies, s.most = tallies, max(n, fewLanes)
	}
	if t.filed {
		e.dropped = append(e.dropped, t.number)
	}
}

// wither forgets what has expired among up to limit tallies, which are looked at when they would have expired when that
// was last known: what is taken again and again is so not moved each time. It reports whether there are more.
func (e *Engine) wither(now leaky.Instant, limit int) (more bool) {
	for ; limit > 0 && e.tallies.len() > 0 && e.tallies.top().looks <= now; limit-- {
		t := e.tallies.top()
		if t.expired(now) {
			e.forgetTally(t)
			continue
		}
		t.looks = max(t.expires, now.Add(queue.Horizon))
		e.tallies.fix(0)
	}
	return e.tallies.len() > 0 && e.tallies.top().looks <= now
}

// witherMax is how many tallies one call looks at, beside the two of each question.
const witherMax = 100

// change marks a tally as not on file.
func (e *Engine) change(t *tally) {
	e.lodge(t)
	if !t.dirty {
		t.dirty = true
		e.dirty = append(e.dirty, t)
		e.stir()
	}
}
