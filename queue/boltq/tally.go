package boltq

import (
	"bytes"
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// tally is what was taken from a rule under one key. There may be millions: so it is small, and of most all is packed in it.
type tally struct {
	book    *book
	digest  queue.LaneDigest // of the key
	number  uint64           // its key in the file
	expires leaky.Instant    // from when on it is as a fresh one, by the numbers under which it was last written
	looks   leaky.Instant    // when it is looked at whether it has expired
	live    *living          // nil if it is packed
	place   int32            // among all that are
	dirty   bool             // something in it is neither on file nor on its way there
	batched bool             // it goes with the batch that is being made
	filed   bool             // it may be on file
	gone    bool
	size    uint8
	packed  [packedMax]byte // what its state writes of itself, size bytes; of a fresh one none
}

// packedMax is as much as makes a tally 112 bytes, which is what so much is allocated as. Of a log it holds the first entries, of
// concurrency one place.
const packedMax = 47

// living is the state of a tally that is too large to be packed, or of which something is on its way to disk.
type living struct {
	limiter leaky.Limiter // whose numbers the state knows
	right   leaky.Limiter // by whose it was last put right: see putRight
	state   leaky.Tally   // with all that was taken
	size    int           // of what it last wrote of itself
	// While what appends took is on its way to disk: if that does not get there, it is to be as if they had not asked.
	sure  leaky.Tally // without the first of the deeds, and all behind it; nil if nothing is on its way
	deeds []*deed     // the first that is not sure, and all that was done since
}

// deed is something that changed a tally.
type deed struct {
	at  leaky.Instant
	op  queue.TakeOp
	ask leaky.Ask
	// Of what an append took: it is not known whether that is on disk; it is in the batch under way.
	unsure, sent bool
}

// do does it to a state.
func (d *deed) do(s leaky.Tally, l leaky.Limiter) leaky.Tally {
	switch d.op {
	case queue.TakeBack:
		s.Refund(d.at, d.ask)
	case queue.TakeAnew:
		return l.Fresh()
	default:
		s.Take(d.at, d.ask)
	}
	return s
}

// moving reports whether something of it is on its way to disk.
func (t *tally) moving() bool { return t.live != nil && t.live.sure != nil }

// expired reports whether it may be forgotten.
func (t *tally) expired(now leaky.Instant) bool { return t.expires <= now && !t.moving() }

// under is the state as l reads it, which is kept only by who changes it.
func (t *tally) under(l leaky.Limiter) leaky.Tally {
	switch {
	case t.live == nil && t.size == 0:
		return l.Fresh()
	case t.live == nil:
		return reread(t.packed[:t.size], l)
	case t.live.limiter == l:
		return t.live.state
	}
	s := copied(t.live.state, l)
	if t.live.sure == nil && t.live.size > packedMax { // of a log or of places, in which other numbers lose nothing: not for each look
		t.live.limiter, t.live.state = l, s
	}
	return s
}

func copied(s leaky.Tally, l leaky.Limiter) leaky.Tally {
	text, _ := s.AppendBinary(nil) // which never fails
	return reread(text, l)
}

func reread(text []byte, l leaky.Limiter) leaky.Tally {
	s, err := l.Restore(text)
	if err != nil {
		return l.Fresh()
	}
	return s
}

// hold keeps a state, packed if that can be.
func (t *tally) hold(s leaky.Tally, l leaky.Limiter, now leaky.Instant) {
	t.expires = s.Expires(now)
	if t.live == nil {
		if t.pack(s) {
			return
		}
		t.live = &living{size: packedMax + 1}
	}
	t.live.limiter, t.live.right, t.live.state = l, l, s
}

// pack packs a state, if it fits.
func (t *tally) pack(s leaky.Tally) bool {
	text, _ := s.AppendBinary(t.packed[:0])
	if len(text) > packedMax {
		return false
	}
	t.size = uint8(len(text))
	return true
}

// rest packs what fits again.
func (t *tally) rest() {
	if v := t.live; v != nil && v.sure == nil && v.size <= packedMax && t.pack(v.state) {
		t.live = nil
	}
}

// differs reports whether a state is another than that which is kept, or of other numbers.
func (t *tally) differs(s leaky.Tally, l leaky.Limiter) bool {
	if t.live != nil {
		return t.live.right != l
	}
	text, _ := s.AppendBinary(make([]byte, 0, packedMax))
	return !bytes.Equal(text, t.packed[:t.size])
}

// keep keeps what a deed has made of the state.
func (t *tally) keep(s leaky.Tally, l leaky.Limiter, d deed) {
	t.hold(s, l, d.at)
	if t.moving() {
		later := d
		t.live.deeds = append(t.live.deeds, &later)
	}
}

// charge takes what an append takes, which is not sure before it is on disk. It was asked before.
func (t *tally) charge(l leaky.Limiter, now leaky.Instant, a leaky.Ask) *deed {
	s := t.under(l)
	if t.live == nil {
		t.live = &living{}
	}
	v := t.live
	if v.sure == nil {
		v.sure = s.Clone()
	}
	d := &deed{at: now, ask: a, unsure: true}
	t.hold(d.do(s, l), l, now)
	v.deeds = append(v.deeds, d)
	return d
}

// settle notes that what an append took is on disk.
func (t *tally) settle(d *deed) {
	d.unsure = false
	v := t.live
	for len(v.deeds) > 0 && !v.deeds[0].unsure {
		v.sure = v.deeds[0].do(v.sure, v.limiter)
		v.deeds = v.deeds[1:]
	}
	if len(v.deeds) == 0 {
		v.sure, v.deeds = nil, nil
		t.rest()
	}
}

// undo takes back what an append took.
func (t *tally) undo(d *deed, now leaky.Instant) {
	v := t.live
	v.deeds = slices.DeleteFunc(v.deeds, func(other *deed) bool { return other == d })
	s := copied(v.sure, v.limiter)
	for _, d := range v.deeds {
		s = d.do(s, v.limiter)
	}
	t.hold(s, v.limiter, now)
	if !slices.ContainsFunc(v.deeds, func(d *deed) bool { return d.unsure }) {
		v.sure, v.deeds = nil, nil
	}
}

// record is what the file should say at the end of the batch under way: nothing of what appends took that go in a later one.
func (t *tally) record() []byte {
	v, expires := t.live, t.expires
	if v == nil {
		return append(t.head(expires), t.packed[:t.size]...)
	}
	s := v.state
	if later := slices.IndexFunc(v.deeds, func(d *deed) bool { return d.unsure && !d.sent }); later >= 0 {
		s = copied(v.sure, v.limiter)
		for _, d := range v.deeds[:later] {
			s = d.do(s, v.limiter)
		}
		expires = s.Expires(v.deeds[later].at)
	}
	head := t.head(expires)
	b, _ := s.AppendBinary(head)
	v.size = len(b) - len(head)
	return b
}

func (t *tally) head(expires leaky.Instant) []byte {
	w := make(writer, 0, 2*8+len(t.digest)+packedMax)
	w.num(t.book.number, uint64(expires))
	return append(w, t.digest[:]...)
}

// decodeTally takes a record apart; the state shares memory with b.
func decodeTally(b []byte) (book uint64, expires leaky.Instant, digest queue.LaneDigest, state []byte, err error) {
	r := reader{b: b}
	book, expires = r.num(), leaky.Instant(r.num())
	copy(digest[:], r.raw(uint64(len(digest))))
	return book, expires, digest, r.b, r.err("tally")
}
