package boltq

import (
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// tally is what was taken from a rule under one key.
type tally struct {
	book    *book
	key     string
	number  uint64        // its key in the file
	limiter leaky.Limiter // whose numbers the state knows
	state   leaky.Tally   // with all that was taken
	expires leaky.Instant // from when on it is as a fresh one, by the numbers under which it was last written
	looks   leaky.Instant // when it is looked at whether it has expired
	place   int           // among all that are
	open    *open         // while what appends took is on its way to disk
	dirty   bool          // something in it is neither on file nor on its way there
	batched bool          // it goes with the batch that is being made
	filed   bool          // it may be on file
	gone    bool
}

// open is a tally while what appends took of it is on its way to disk: if that does not get there, the tally is to be as if
// they had not asked.
type open struct {
	sure  leaky.Tally // without the first of the deeds, and all behind it
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

// under is the state as l reads it. What comes of other numbers than its own is kept only by who changes it.
func (t *tally) under(l leaky.Limiter) leaky.Tally {
	if t.limiter == l {
		return t.state
	}
	return copied(t.state, l)
}

func copied(s leaky.Tally, l leaky.Limiter) leaky.Tally {
	text, err := s.AppendBinary(nil)
	if err == nil {
		s, err = l.Restore(text)
	}
	if err != nil {
		return l.Fresh()
	}
	return s
}

// keep keeps what a deed has made of the state.
func (t *tally) keep(s leaky.Tally, l leaky.Limiter, d deed) {
	t.state, t.limiter, t.expires = s, l, s.Expires(d.at)
	if t.open != nil {
		later := d
		t.open.deeds = append(t.open.deeds, &later)
	}
}

// charge takes what an append takes, which is not sure before it is on disk. It was asked before.
func (t *tally) charge(l leaky.Limiter, now leaky.Instant, a leaky.Ask) *deed {
	s := t.under(l)
	if t.open == nil {
		t.open = &open{sure: copied(s, l)}
	}
	d := &deed{at: now, ask: a, unsure: true}
	s = d.do(s, l)
	t.state, t.limiter, t.expires = s, l, s.Expires(now)
	t.open.deeds = append(t.open.deeds, d)
	return d
}

// settle notes that what an append took is on disk.
func (t *tally) settle(d *deed) {
	d.unsure = false
	o := t.open
	for len(o.deeds) > 0 && !o.deeds[0].unsure {
		o.sure = o.deeds[0].do(o.sure, t.limiter)
		o.deeds = o.deeds[1:]
	}
	if len(o.deeds) == 0 {
		t.open = nil
	}
}

// undo takes back what an append took.
func (t *tally) undo(d *deed, now leaky.Instant) {
	o := t.open
	o.deeds = slices.DeleteFunc(o.deeds, func(other *deed) bool { return other == d })
	t.state = copied(o.sure, t.limiter)
	for _, d := range o.deeds {
		t.state = d.do(t.state, t.limiter)
	}
	t.expires = t.state.Expires(now)
	if !slices.ContainsFunc(o.deeds, func(d *deed) bool { return d.unsure }) {
		t.open = nil
	}
}

// record is what the file should say at the end of the batch under way: nothing of what appends took that go in a later one.
func (t *tally) record() []byte {
	s, expires := t.state, t.expires
	if o := t.open; o != nil {
		if later := slices.IndexFunc(o.deeds, func(d *deed) bool { return d.unsure && !d.sent }); later >= 0 {
			s = copied(o.sure, t.limiter)
			for _, d := range o.deeds[:later] {
				s = d.do(s, t.limiter)
			}
			expires = s.Expires(o.deeds[later].at)
		}
	}
	w := writer{}
	w.num(t.book.number, uint64(expires))
	w.text(t.key)
	b, _ := s.AppendBinary(w) // which never fails
	return b
}

// decodeTally takes a record apart; the state shares memory with b.
func decodeTally(b []byte) (book uint64, expires leaky.Instant, key string, state []byte, err error) {
	r := reader{b: b}
	book, expires, key = r.num(), leaky.Instant(r.num()), r.text()
	return book, expires, key, r.b, r.err("tally")
}
