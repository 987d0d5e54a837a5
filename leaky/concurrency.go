package leaky

import (
	"encoding/binary"
	"slices"
	"time"
)

// Concurrency limits the total cost of the places held at once to Max. A take holds a place under a name until Refund
// frees it, or until TTL after the Take that took or last renewed it. So the place of a crashed holder becomes free by
// itself, and a live holder renews it in time (C. G. Gray, D. R. Cheriton, "Leases", SOSP 1989).
//
// A Take under a name that holds a place renews the place at its present cost. It is always allowed, at any cost, even
// if Max has been lowered below that. Refund frees the whole place of the name, if there is one.
//
// It is exact. But a holder that outlives its lease without renewing it works alongside the new owner of its place.
//
// Worst burst: Max at once, and again whenever places are freed: it bounds the work in progress, not a rate.
//
// Memory: one place (a name, a cost, an instant) per holder.
type Concurrency struct {
	Max int64         // 1 to MaxEntries
	TTL time.Duration // MinPeriod to MaxPeriod
}

// AlgorithmConcurrency is the name of Concurrency.
const AlgorithmConcurrency Algorithm = "concurrency"

// stateConcurrency is the first byte of its states.
const stateConcurrency = 'p'

// Algorithm implements Limiter.
func (c Concurrency) Algorithm() Algorithm { return AlgorithmConcurrency }

// Validate implements Limiter.
func (c Concurrency) Validate() error {
	if err := checkMax("max", c.Max, MaxEntries); err != nil {
		return err
	}
	return checkPeriod("ttl", c.TTL, MinPeriod, MaxPeriod)
}

// Limit implements Limiter. It returns Max.
func (c Concurrency) Limit() int64 { return c.Max }

// Most implements Limiter. It returns -1: the takes of a span have no bound.
func (c Concurrency) Most(time.Duration) int64 { return -1 }

// Fresh implements Limiter.
func (c Concurrency) Fresh() Tally {
	return &placeTable{rule: c, ttl: Instant(c.TTL.Microseconds()), heads: make([]int32, 1), places: make([]place, 1)}
}

// placeTable has the held places in a circular list sorted by their ends; places[0] is its head and holds no place. A
// place is found in the chain for the hash of its name.
type placeTable struct {
	rule   Concurrency
	ttl    Instant
	heads  []int32 // of the chains; their number is a power of two
	places []place
	n      int   // number of held places
	free   int32 // first free place, or 0
	sum    int64 // total cost of held places
	// The list in short runs. Runs may be empty.
	runs  []placeRun
	looks int // places and runs visited, for tests of the amortized cost
}

type place struct {
	name       string
	hash       uint64
	until      Instant
	cost       int64
	prev, next int32
	chain      int32 // next place in its chain
	run        int32
}

func (t *placeTable) Take(now Instant, a Ask) Decision {
	t.settle(now)
	i, hash := t.find(a.Lease)
	cost := a.cost()
	if !validLease(a.Lease) {
		cost = never
	}
	d := t.decide(now, cost, i)
	if d.Allowed {
		if i == 0 {
			i = t.make(a.Lease, hash, cost)
		} else {
			t.unlink(i)
		}
		t.link(i, now+t.ttl)
	}
	return d
}

// Peek without a name asks for a new place.
func (t *placeTable) Peek(now Instant, a Ask) Decision {
	i, _ := t.find(a.Lease)
	return t.decide(now, a.cost(), i)
}

func (t *placeTable) Refund(now Instant, a Ask) Decision {
	t.settle(now)
	if i, _ := t.find(a.Lease); i != 0 {
		t.drop(i)
	}
	return t.Peek(now, Ask{})
}

func (t *placeTable) Expires(now Instant) Instant { return now.Add(t.reset(now)) }

// never is a cost that is never allowed.
const never = -1

// decide answers for the place i of a name, or for 0 if the name has no place.
func (t *placeTable) decide(now Instant, cost int64, i int32) Decision {
	most := t.rule.Max
	first, sum := t.over(now)
	d := Decision{Limit: most, ResetAfter: t.reset(now)}
	switch {
	case cost < 1:
	case i != 0 && t.places[i].until > now:
		d.Allowed, d.ResetAfter = true, t.rule.TTL
	case cost > most:
	case sum+cost <= most:
		d.Allowed, d.ResetAfter = true, t.rule.TTL
		sum += cost
	default:
		d.RetryAfter = t.passes(now, first, sum+cost-most).Sub(now)
	}
	d.Remaining = max(0, most-sum)
	return d
}

func (t *placeTable) reset(now Instant) time.Duration {
	last := t.places[0].prev
	if last == 0 {
		return 0
	}
	return max(0, t.ends(now, last).Sub(now))
}

// settle frees ended places. It also limits every end to that of a place taken now: a clock that ran back, a planted
// state or an earlier, longer TTL may have left later ends.
func (t *placeTable) settle(now Instant) {
	for i := t.places[0].next; i != 0 && t.places[i].until <= now; i = t.places[0].next {
		t.drop(i)
	}
	for i := t.places[0].prev; i != 0 && t.places[i].until > now+t.ttl; i = t.places[i].prev {
		t.places[i].until = now + t.ttl
	}
}

// make adds a place that is in no list yet.
func (t *placeTable) make(name string, hash uint64, cost int64) int32 {
	i := t.free
	if i == 0 {
		i = int32(len(t.places))
		t.places = append(t.places, place{})
	} else {
		t.free = t.places[i].next
	}
	t.places[i] = place{name: name, hash: hash, cost: cost}
	t.enter(i)
	t.sum += cost
	return i
}

// link appends a place to the list: no other place ends later.
func (t *placeTable) link(i int32, until Instant) {
	last := t.places[0].prev
	p := &t.places[i]
	p.until, p.prev, p.next = until, last, 0
	t.places[last].next = i
	t.places[0].prev = i
	t.join(i)
}

func (t *placeTable) unlink(i int32) {
	t.part(i)
	p := &t.places[i]
	t.places[p.prev].next, t.places[p.next].prev = p.next, p.prev
}

func (t *placeTable) drop(i int32) {
	t.unlink(i)
	t.sum -= t.places[i].cost
	t.leave(i)
	t.places[i] = place{next: t.free}
	t.free = i
}

func (t *placeTable) Clone() Tally {
	c := *t
	c.heads, c.places, c.runs = slices.Clone(t.heads), slices.Clone(t.places), slices.Clone(t.runs)
	return &c
}

func (t *placeTable) AppendBinary(b []byte) ([]byte, error) {
	b = binary.AppendVarint(append(b, stateConcurrency), int64(t.n))
	before := Instant(0)
	for i := t.places[0].next; i != 0; i = t.places[i].next {
		p := &t.places[i]
		b = binary.AppendVarint(b, int64(len(p.name)))
		b = append(b, p.name...)
		b = binary.AppendVarint(b, p.cost)
		b = binary.AppendVarint(b, int64(p.until-before))
		before = p.until
	}
	return b, nil
}

// Restore implements Limiter. Holders keep their places, even if Max is lower now.
func (c Concurrency) Restore(b []byte) (Tally, error) {
	t := c.Fresh().(*placeTable)
	r := readState(b, stateConcurrency)
	until, n := Instant(0), r.number(0, MaxEntries)
	for i := range n {
		name, cost := r.text(1, MaxLease), r.number(1, MaxEntries-t.sum)
		if i == 0 {
			until = r.instant()
		} else {
			until += Instant(r.number(0, 1<<53-int64(until)))
		}
		at, hash := t.find(name)
		if r.bad || at != 0 {
			r.bad = true
			break
		}
		t.link(t.make(name, hash, cost), until)
	}
	return r.end(c, t)
}
