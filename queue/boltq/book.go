package boltq

import (
	"maps"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// book is what was taken from a rule, under all its keys, since the rule was made, was reset or got another algorithm.
type book struct {
	number   uint64 // which the tallies have in the file
	chapters [32]chapter
}

// chapter is some of a book's tallies, by the digest of the key. A map keeps the size that it had, and so is made anew when few of many
// are left: of one for all of a million keys that would hold up everybody.
type chapter struct {
	tallies map[queue.LaneDigest]*tally
	most    int // that there were at once since the map was made
}

func (s *book) chapter(key queue.LaneDigest) *chapter {
	return &s.chapters[int(key[0])%len(s.chapters)]
}

func (s *book) find(key queue.LaneDigest) *tally { return s.chapter(key).tallies[key] }

func (s *book) len() (n int) {
	for i := range s.chapters {
		n += len(s.chapters[i].tallies)
	}
	return n
}

func (s *book) put(t *tally) {
	h := s.chapter(t.digest)
	if h.tallies == nil {
		h.tallies = map[queue.LaneDigest]*tally{}
	}
	h.tallies[t.digest] = t
	h.most = max(h.most, len(h.tallies))
}

func (s *book) remove(t *tally) {
	h := s.chapter(t.digest)
	delete(h.tallies, t.digest)
	if n := len(h.tallies); h.most > fewLanes && n < h.most/16 {
		few := make(map[queue.LaneDigest]*tally, 2*n)
		maps.Copy(few, h.tallies)
		h.tallies, h.most = few, max(n, fewLanes)
	}
}

func (e *Engine) newBook() *book {
	e.lastBook++
	return &book{number: e.lastBook}
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
	if s.len() > 0 {
		e.garbage = append(e.garbage, &rubbish{book: s})
	}
}

// tallyAt returns the tally of a key, nil if nothing was taken that still counts.
func (e *Engine) tallyAt(s *book, key queue.LaneDigest, now leaky.Instant) *tally {
	t := s.find(key)
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
	t.book.put(t)
	e.tallies.push(t)
}

func (e *Engine) forgetTally(t *tally) {
	t.gone = true
	e.tallies.remove(t)
	t.book.remove(t)
	if t.filed {
		e.dropped.add(t.number)
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
		e.dirty.add(t)
		e.stir()
	}
}
