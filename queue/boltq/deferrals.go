package boltq

import (
	"hash/maphash"
	"slices"

	"github.com/penstock/penstock/leaky"
)

// deferral is the record of a job that was set aside. There may be a million,
// so it has no pointer in it: the collector passes over a page of them.
type deferral struct {
	at     leaky.Instant // when it was set aside
	seq    uint64        // the key of its record in the file
	print  [8]byte       // fingerprint
	id     uint32        // where its id begins among the page's
	cost   uint16
	length uint8 // of the id
	state  deferralState
}

// deferralState is what became of a record.
type deferralState uint8

const (
	noDeferral        deferralState = iota // or never there
	stillDeferred                          // the job is on the overflow, as far as we know
	cancelledDeferral                      // back: it was cancelled, and is dropped on its way back
)

// deferrals keeps the records of a queue's deferred jobs by number and by id. They
// come in order of number and end in about that order, so they lie in pages of
// consecutive numbers, and an index finds the number of an id.
type deferrals struct {
	pages []*page // nil once all of its records have ended
	first uint64  // which page pages[0] is
	n     int
	ids   index
}

const pageSize = 256

type page struct {
	from    uint64 // the number of records[0]
	records []deferral
	ids     []byte
	n       int
}

func (g *deferrals) page(number uint64) *page {
	if i := number/pageSize - g.first; len(g.pages) > 0 && i < uint64(len(g.pages)) {
		return g.pages[i]
	}
	return nil
}

// get returns the record of that number, nil if there is none. It is valid until
// the next record is added.
func (g *deferrals) get(number uint64) *deferral {
	p := g.page(number)
	if p == nil || number < p.from || number-p.from >= uint64(len(p.records)) {
		return nil
	}
	if d := &p.records[number-p.from]; d.state != noDeferral {
		return d
	}
	return nil
}

// id returns the id of a record that is there. It shares the page's memory.
func (g *deferrals) id(number uint64) []byte {
	p := g.page(number)
	d := &p.records[number-p.from]
	return p.ids[d.id:][:d.length]
}

// find returns the number of the record of id, 0 if there is none.
func (g *deferrals) find(id string) uint64 {
	if g.n == 0 {
		return 0
	}
	if at := g.seek(id); at >= 0 {
		return g.widen(g.ids.slots[at])
	}
	return 0
}

// seek returns the slot of id, -1 if it has none.
func (g *deferrals) seek(id string) int {
	h := hashOf(id)
	for i := g.ids.home(h); g.ids.slots[i] != 0; i = g.ids.next(i) {
		if s := g.ids.slots[i]; s>>32 == h && string(g.id(g.widen(s))) == id {
			return i
		}
	}
	return -1
}

// widen makes a number of the lower half of it that a slot holds: the records at
// a time span far less than 2^32.
func (g *deferrals) widen(slot uint64) uint64 {
	base := g.first * pageSize
	return base + uint64(uint32(slot)-uint32(base))
}

// add notes a record. Its number is greater than all before, and its id has no
// other record.
func (g *deferrals) add(number uint64, id string, d deferral) {
	at := number / pageSize
	if len(g.pages) == 0 {
		g.first = at
	}
	for g.first+uint64(len(g.pages)) <= at {
		if n := len(g.pages); n > 0 && g.pages[n-1] != nil {
			g.pages[n-1].close()
		}
		g.pages = append(g.pages, nil)
	}
	p := g.pages[at-g.first]
	if p == nil {
		p = &page{from: number}
		g.pages[at-g.first] = p
	}
	for p.from+uint64(len(p.records)) < number { // was given to nobody
		p.records = append(p.records, deferral{})
	}
	d.id, d.length = uint32(len(p.ids)), uint8(len(id))
	p.ids = append(p.ids, id...)
	p.records = append(p.records, d)
	p.n++
	g.n++
	g.ids.add(hashOf(id)<<32 | uint64(uint32(number)))
}

// close gives back what was allocated for more records than came.
func (p *page) close() { p.ids = slices.Clone(p.ids) }

// remove ends a record that is there.
func (g *deferrals) remove(number uint64) {
	g.ids.remove(g.seek(string(g.id(number))))
	p := g.page(number)
	p.records[number-p.from].state = noDeferral
	p.n--
	if g.n--; g.n == 0 {
		*g = deferrals{}
		return
	}
	if p.n > 0 {
		return
	}
	g.pages[number/pageSize-g.first] = nil
	for g.pages[0] == nil {
		g.pages = g.pages[1:]
		g.first++
	}
}

// oldest returns the number of the first record, 0 if there is none.
func (g *deferrals) oldest() uint64 {
	if g.n == 0 {
		return 0
	}
	p := g.pages[0]
	i := slices.IndexFunc(p.records, func(d deferral) bool { return d.state != noDeferral })
	return p.from + uint64(i)
}

// index is a hash table without keys: a slot holds the hash of an id in its upper
// half, and in its lower one the number under which the owner finds the id to
// compare it. Collisions go to the next slot.
type index struct {
	slots []uint64 // 0 is free
	n     int
}

var seed = maphash.MakeSeed()

// hashOf is a hash of 32 bits that is never 0, so that no slot in use is.
func hashOf(id string) uint64 { return maphash.String(seed, id)>>32 | 1 }

// home is where the slot of a hash should be: any length will do, and the slots
// stay in order of hash, so that growing runs through memory once.
func (x *index) home(hash uint64) int { return int(hash * uint64(len(x.slots)) >> 32) }

func (x *index) next(i int) int {
	if i++; i == len(x.slots) {
		return 0
	}
	return i
}

func (x *index) add(slot uint64) {
	if x.n >= len(x.slots)*3/4 {
		x.resize(max(8, len(x.slots)+len(x.slots)/4))
	}
	x.put(slot)
	x.n++
}

func (x *index) put(slot uint64) {
	i := x.home(slot >> 32)
	for x.slots[i] != 0 {
		i = x.next(i)
	}
	x.slots[i] = slot
}

// remove frees the slot at i, and moves back those that were displaced beyond it.
func (x *index) remove(i int) {
	for j := x.next(i); x.slots[j] != 0; j = x.next(j) {
		home := x.home(x.slots[j] >> 32)
		stays := i < home && home <= j
		if j < i { // over the end
			stays = i < home || home <= j
		}
		if !stays {
			x.slots[i] = x.slots[j]
			i = j
		}
	}
	x.slots[i] = 0
	if x.n--; len(x.slots) > 64 && x.n < len(x.slots)/4 {
		x.resize(len(x.slots) / 2)
	}
}

func (x *index) resize(size int) {
	old := x.slots
	x.slots = make([]uint64, size)
	for _, slot := range old {
		if slot != 0 {
			x.put(slot)
		}
	}
}
